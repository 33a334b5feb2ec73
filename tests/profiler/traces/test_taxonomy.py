"""The table of kernel names, row by row, with names of public traces."""

from __future__ import annotations

import pytest

from ftprof.profiler.traces.taxonomy import attention_form, is_misaligned, kernel_class, tensor_core

NATIVE = "void at::native::"
COPY = "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}"

ROWS = [
    ("nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT", "gemm", "yes"),
    ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_sm100f", "gemm", "yes"),
    ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_m128x16x32_dynBatch_sm100f", "gemm", "yes"),
    ("fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext", "attention", "yes"),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas",
        "gemm",
        "yes",
    ),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_ffma_aligna4_alignc4_execute_kernel", "gemm", "no"),
    ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(P)", "gemm", "yes"),
    ("void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(P)", "gemm", "yes"),
    ("void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(P)", "gemm", "no"),
    ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn", "gemm", "yes"),
    ("volta_h884gemm_64x64_ldg8_nn", "gemm", "yes"),
    ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", "gemm", "yes"),
    ("volta_sgemm_64x64_tn", "gemm", "no"),
    ("ampere_sgemm_32x32_sliced1x4_tn", "gemm", "no"),
    ("void gemv2T_kernel_val<int, int, __nv_bfloat16, float>(P)", "gemm", "no"),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x48x64_MI16x16x1_SN_LDSB1", "gemm", "yes"),
    ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", "gemm", "unknown"),
    (
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>>(P)",
        "attention",
        "yes",
    ),
    ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<P>)", "attention", "yes"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x64x64", "attention", "yes"),
    ("void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>(P)", "attention", "yes"),
    ("void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16>(P)", "attention", "no"),
    ("kernel_unified_attention_2d", "attention", "unknown"),
    (f"{NATIVE}(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float>(P)", "softmax", "no"),
    ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(P)", "softmax", "no"),
    (f"{NATIVE}(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(P)", "norm", "no"),
    ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1", "norm", "no"),
    ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(P)", "norm", "no"),
    ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(P)", "rotary", "no"),
    (f"{NATIVE}vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>(P)", "elementwise", "no"),
    ("triton_poi_fused_add_cos_sin_0", "elementwise", "no"),
    ("void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel>(P)", "elementwise", "no"),
    (f"{NATIVE}reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(P)", "reduction", "no"),
    (f"{NATIVE}reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>(P)", "sampling", "no"),
    ("void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<P>(P)", "sampling", "no"),
    (f"{NATIVE}(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long>(P)", "gather", "no"),
    (f"{NATIVE}elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::{COPY}>>(P)", "copy", "no"),
    (f"{NATIVE}elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::{COPY}>>(P)", "cast", "no"),
    (f"{NATIVE}unrolled_elementwise_kernel<at::native::{COPY}, at::native::memory::LoadWithCast<1>>(P)", "cast", "no"),
    (f"{NATIVE}vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(I&)>(P)", "cast", "no"),
    (f"{NATIVE}(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 4, 64, 64>(P)", "copy", "no"),
    ("void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16>(P)", "copy", "no"),
    (f"{NATIVE}vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(P)", "fill", "no"),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collective", "no"),
    ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(P)", "collective", "no"),
    ("void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>(P)", "quantise", "no"),
    ("void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 1>(P)", "quantise", "no"),
    ("fbgemm_gpu::(anonymous namespace)::_compute_FP8_quantize_cuda_kernel<float>(P)", "quantise", "no"),
    ("void fbgemm_gpu::permute_2D_data_kernel<false, int>(P)", "copy", "no"),
    ("void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(P)", "convolution", "no"),
    (
        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_nhwc_align8>(P)",
        "convolution",
        "yes",
    ),
    ("_lora_shrink_kernel", "lora", "unknown"),
    (
        f"{NATIVE}(anonymous namespace)::multi_tensor_apply_kernel<L, at::native::AdamFunctor<float>>(P)",
        "optimiser",
        "no",
    ),
    ("Memcpy DtoH (Device -> Pageable)", "memcpy", "no"),
    ("Memset (Device)", "memset", "no"),
    ("my_own_thing", "other", "no"),
]


@pytest.mark.parametrize(("name", "kind", "cores"), ROWS, ids=[row[0][:60] for row in ROWS])
def test_class_and_matrix_units(name: str, kind: str, cores: str) -> None:
    assert (kernel_class(name), tensor_core(name)) == (kind, cores)


@pytest.mark.parametrize(
    ("name", "misaligned"),
    [
        ("cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1", True),
        ("cutlass_75_tensorop_bf16_s1688gemm_bf16_256x64_tn_align2>(P)", True),
        ("cutlass_80_tensorop_s16816gemm_bf16_64x64_64x6_tn_align16", False),
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_64x6_tn_align8", False),
        ("sm80_xmma_gemm_f32f32_tn_n_tilesize64x256x8_ffma_aligna4_alignc4", False),
    ],
)
def test_misaligned_products(name: str, misaligned: bool) -> None:
    assert is_misaligned(name) is misaligned


def test_forms_of_fused_attention() -> None:
    assert attention_form("void pytorch_flash::flash_fwd_kernel<T>(P)") == "flash"
    assert attention_form("fmha_cutlassF_f32_aligned_64x64_rf_sm80(P)") == "memory-efficient"
    assert attention_form("volta_sgemm_64x64_tn") is None
