"""What a kernel does, by its name: a table, first match wins. Tested with the names of public traces.

Covers cuBLAS and cuBLASLt (volta to Blackwell: xmma, nvjet, bmm), cutlass, cuDNN, flash-attention, PyTorch's own
kernels, Triton and Inductor, vLLM and SGLang, bitsandbytes, and AMD's Tensile, MIOpen, CK and AITER.
"""

from __future__ import annotations

CLASSES: tuple[tuple[str, str], ...] = (
    # Collectives first: an all-reduce kernel also holds "reduce".
    (
        "collective",
        (
            r"nccl|rccl|mscclpp|multimem_|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce|SendRecv|"
            r"nvshmem"
        ),
    ),
    # LoRA of serving engines has kernels of its own.
    ("lora", r"[bs]gmv_|_lora_(?:shrink|expand)|lora_(?:shrink|expand)|add_lora"),
    # Writing keys and values into a paged cache moves data, whatever the name says of flash.
    ("copy", r"reshape_and_cache|store_kv_?cache|set_kv_buffer|set_mla_kv|copy_blocks|concat_and_cache"),
    ("norm", r"add_?rms_?norm|rms_?norm|Rmsnorm|layer_?norm|LayerNorm|layernorm2d|group_?norm|GroupNorm|batch_?norm"),
    (
        "norm",
        r"cudnn::bn_|\bbn_(?:fw|bw)_|RowwiseMoments|ComputeFusedParams|BackwardFusedParams|GammaBeta|MIOpenBatchNorm",
    ),
    ("norm", r"triton_\w*(?:layer_norm|rms_norm|_rsqrt)"),
    (
        "attention",
        (
            r"flash_(?:fwd|bwd)|flash::|FlashAttn|fmha|mha_(?:fwd|bwd)|\bbare_attn|attn_(?:fwd|bwd)|paged_attention|"
            r"unified_attention|AttentionKernel|_sdpa_|sdpa_(?:fwd|bwd)|BatchDecode|BatchPrefill|decode_attention|"
            r"extend_attention|_fwd_grouped_kernel_stage|_fwd_kernel_stage2|merge_attn_states|kn_mla|mla_"
        ),
    ),
    ("softmax", r"soft_?max|SoftMax"),
    ("rotary", r"rotary|\brope\b|_rope_|rope_kernel"),
    (
        "moe",
        (
            r"topkGating|topk_gating|moe_(?:align|sort|sum)|moe::dev::(?:routing|finalize|permute|activation)|"
            r"(?:routing|finalize)(?:Main|Indices|Kernel)|expert_?offset|_finalize_matmul_scatter|_routing_|_topk(?:_|\b)"
        ),
    ),
    ("gather", r"split_embedding|embedding_bag|linearize_index|embeddings?_(?:forward|backward)"),
    ("convolution", r"conv(?!ert)|dgrad|wgrad|fprop|winograd|scudnn|igemm_(?:fwd|bwd|wrw)"),
    # Quantised products count as products; fbgemm is a library of many other things.
    (
        "gemm",
        (
            r"(?<!fb)gemm|Gemm|Cijk_|nvjet|\bbmm_|gemv|\bgemmk1|splitK|cutlass::Kernel|device_kernel<.*gemm|matmul|"
            r"scaled_mm|_w8a8_|_w4a16|marlin|\bdot_kernel|reduce_1Block_kernel|kgemm_|wvSplitK|LLGemm|triton_tem_|"
            r"epilogue::impl::globalKernel|xmma_(?:gemm|tilesize)"
        ),
    ),
    (
        "convolution",
        r"cudnn|fft2d_|nchwToNhwc|nhwcToNchw|[iI]m2[cC]ol|[cC]ol2[iI]m|Im2d2Col|miopen|MIOpen|SubTensorOp",
    ),
    ("quantise", r"quantiz|Quantiz|dequant|_quant_|quant_kernel|FP8rowwise|scaled_fp8|per_token_group_fp8|mxfp4|nvfp4"),
    (
        "sampling",
        r"topk|TopK|argmax|ArgMax|multinomial|[sS]ampling|top_p|top_k|penalt|RadixSort|bitonicSort|sort_postprocess",
    ),
    (
        "gather",
        (
            r"embedding|[iI]ndexSelect|index_select|gather|index_elementwise|indexing_backward|lookup|"
            r"index_kernel|index_put|resolve_future_token"
        ),
    ),
    # PyTorch's copy kernel converts where its loader or its dynamic form says so.
    ("cast", r"direct_copy_kernel.*LoadWithCast|LoadWithCast.*direct_copy_kernel|b?float(?:16|8)\w*_copy_kernel"),
    ("cast", r"gpu_kernel_impl<at::native::(?:\(anonymous namespace\)::)?direct_copy_kernel"),
    ("cast", r"triton_poi_fused__to_copy_\d+$|_cast_kernel|castKernel|\bcast_"),
    (
        "copy",
        (
            r"direct_copy_kernel|CatArray|batched_transpose|transpose|permute|copy_kernel|Copy<|memcpy|"
            r"triton_poi_fused_(?:clone|cat|transpose|permute|view|constant_pad_nd)"
        ),
    ),
    ("fill", r"FillFunctor|fill_kernel|memset|arange|elementwise_kernel_with_index|distribution_elementwise"),
    ("optimiser", r"FusedOptimizer|[aA]dam|adagrad|sgd_|multi_tensor_apply_kernel"),
    ("reduction", r"reduce_kernel|[rR]educe|triton_(?:red|per)_|scan_|Scan|cumsum|pool"),
    (
        "elementwise",
        r"elementwise|vectorized|triton_poi_|pointwise|Functor|act_and_mul|silu|gelu|swiglu|dropout|activation|clamp|where",
    ),
)

# Matrix units (NVIDIA tensor cores, AMD matrix cores). Names that say "no" come first: NVIDIA's fp32 kernels of the
# xmma family run on plain FFMA.
TENSOR_CORE_NO = (
    r"ffma|simt|magma_[sd]gemm|_sgemm_|sgemm_\d|\bsgemm|dgemm(?!_tensor)|scudnn|convolve_sgemm|gemmSN|gemv|gemmk1|gemm2_|gemmk1_|"
    r"dot_kernel|reduce_1Block|splitKreduce|splitK_?reduce|fft2d|winograd_nonfused|dgrad_engine|dgrad2d_alg|wgrad_alg|"
    r"wgrad2d|globalKernel|nchwToNhwc|nhwcToNchw|SubTensorOp|computeOffsets|im2col|col2im|paged_attention_\w*reduce|"
    r"merge_attn_states|LLGemm|wvSplitK"
)
TENSOR_CORE_YES = (
    r"tensorop|wmma|hmma|imma|gmma|[shi](?:884|1688|8816|16816|161616|16832|64\d+x\d+x\d+)|xmma|nvjet|mma_sync|"
    r"\bbmm_\w*sm(?:9|10|12)\d|fmha|flash_(?:fwd|bwd)|flash::|pytorch_flash|cudnn_generated_fort_native_sdpa|mfma|"
    r"Cijk_\w*_MI(?:4|16|32)x|igemm_(?:fwd|bwd|wrw)_gtcx|xdlops|Xdl|_wgmma|cutlass_\w*_h\d{3,}|sm90_|sm100_|UMMA"
)

# NVIDIA's products read operands that are not 16-byte aligned one or two elements at a time.
MISALIGNED = r"align[12](?!\d)"

MEMORY_EFFICIENT = r"fmha_cutlass[FB]|AttentionKernel|MemEff"
