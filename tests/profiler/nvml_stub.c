/* A small stand-in for the driver's libnvidia-ml.so.1: one device whose answers the environment chooses.
   STUB_LOST=n: the device is lost from the n-th power reading on. STUB_SILENT: no energy counter, no memory clock. STUB_MIG: sliced.
   STUB_NO_GPM: the part has no GPM. */
#include <stdlib.h>

typedef int ret_t;
enum { OK = 0, NOT_SUPPORTED = 3, LOST = 15 };
typedef struct { unsigned long long total, free_bytes, used; } memory_t;
typedef struct { unsigned int gpu, memory; } rates_t;
typedef struct { unsigned int version, supported; } support_t;
typedef struct { const char *short_name, *long_name, *unit; } info_t;
typedef struct { unsigned int id; ret_t ret; double value; info_t info; } metric_t;
typedef struct { unsigned int version, count; void *first, *second; metric_t metrics[]; } metrics_t;

static int device, samples_open, readings;

ret_t nvmlInitWithFlags(unsigned int flags) { (void)flags; return OK; }
ret_t nvmlInit_v2(void) { return OK; }
ret_t nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(ret_t code) { return code == LOST ? "GPU is lost" : "Not Supported"; }
ret_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) {
  if (index) return 2; /* invalid argument */
  *handle = &device;
  return OK;
}
ret_t nvmlDeviceGetMigMode(void *d, unsigned int *now, unsigned int *pending) {
  (void)d;
  if (!getenv("STUB_MIG")) return NOT_SUPPORTED;
  *now = *pending = 1;
  return OK;
}
ret_t nvmlDeviceGetPowerUsage(void *d, unsigned int *milliwatts) {
  (void)d;
  const char *lost = getenv("STUB_LOST");
  readings++;
  if (lost && readings >= atoi(lost)) return LOST;
  *milliwatts = 300000;
  return OK;
}
ret_t nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *millijoules) {
  (void)d;
  if (getenv("STUB_SILENT")) return NOT_SUPPORTED;
  *millijoules = 1000000ULL + 50000ULL * readings;
  return OK;
}
ret_t nvmlDeviceGetMemoryInfo(void *d, memory_t *m) {
  (void)d;
  m->total = 80ULL << 30;
  m->used = 10ULL << 30;
  m->free_bytes = m->total - m->used;
  return OK;
}
ret_t nvmlDeviceGetUtilizationRates(void *d, rates_t *r) {
  (void)d;
  if (getenv("STUB_MIG")) return NOT_SUPPORTED;
  r->gpu = 97;
  r->memory = 40;
  return OK;
}
ret_t nvmlDeviceGetClockInfo(void *d, unsigned int which, unsigned int *mhz) {
  (void)d;
  if (which == 2 && getenv("STUB_SILENT")) return NOT_SUPPORTED;
  *mhz = which == 2 ? 2619 : 1755;
  return OK;
}
ret_t nvmlDeviceGetTemperature(void *d, unsigned int which, unsigned int *celsius) {
  (void)d;
  (void)which;
  *celsius = 61;
  return OK;
}
/* Only the old name of the clock event reasons is exported, as by drivers before 535. */
ret_t nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *reasons) {
  (void)d;
  *reasons = readings % 2 ? 0x4 : 0x1;
  return OK;
}
ret_t nvmlGpmQueryDeviceSupport(void *d, support_t *s) {
  (void)d;
  s->supported = getenv("STUB_NO_GPM") ? 0 : 1;
  return OK;
}
ret_t nvmlGpmSampleAlloc(void **sample) {
  samples_open++;
  *sample = malloc(64);
  return OK;
}
ret_t nvmlGpmSampleFree(void *sample) {
  samples_open--;
  free(sample);
  return OK;
}
ret_t nvmlGpmSampleGet(void *d, void *sample) {
  (void)d;
  (void)sample;
  return OK;
}
ret_t nvmlGpmMetricsGet(metrics_t *wanted) {
  for (unsigned int i = 0; i < wanted->count; i++) {
    wanted->metrics[i].ret = wanted->metrics[i].id == 5 ? NOT_SUPPORTED : OK;
    wanted->metrics[i].value = 10.0 * wanted->metrics[i].id;
  }
  return OK;
}
int stubSamplesOpen(void) { return samples_open; }
