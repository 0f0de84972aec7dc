/* A CUDA device that computes nothing.
 *
 * Preloaded before torch's own build for CUDA, it stands in for the CUDA runtime, the driver and cuBLAS: memory is the
 * host's, copies are made, kernels are counted and not run, and what is read back from the device is zeros (one byte by
 * itself is 1, which is how torch reads "all is well"). Streams are captured, and what CUDA forbids during a capture
 * fails as it does there. All functions that are not written here do nothing and succeed; build.py adds them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver_types.h"

#define API __attribute__((visibility("default")))

/* What is counted; NULL_CUDA_COUNTS names a file that gets the numbers as JSON at the end of the process. */
enum count { LAUNCHES, GRAPH_LAUNCHES, CAPTURES, WAITS, UPLOADS, DOWNLOADS, FORBIDDEN, COUNTS };
static const char *const NAMES[COUNTS] = {"launches", "graph_launches", "captures", "waits",
                                          "uploads",  "downloads",      "forbidden"};
static uint64_t counts[COUNTS];

__attribute__((destructor)) static void write_counts(void) {
  const char *path = getenv("NULL_CUDA_COUNTS");
  FILE *file = path && counts[LAUNCHES] ? fopen(path, "w") : NULL; /* compilers are started with it preloaded, too */
  if (!file)
    return;
  for (int i = 0; i < COUNTS; i++)
    fprintf(file, "%s\"%s\": %lu", i ? ", " : "{", NAMES[i], counts[i]);
  fputs("}\n", file);
  fclose(file);
}

static void *handle(void) { return calloc(1, 256); }

/* Captures */

static void *capturing; /* the stream */
static int mode;
static __thread int mode_of_thread;
static uint64_t nodes, captured_as = 1;
static __thread int error;

static int forbidden(void) {
  counts[FORBIDDEN]++;
  return error = cudaErrorStreamCaptureUnsupported;
}

static int launched(void) {
  counts[LAUNCHES]++;
  nodes += capturing != NULL;
  return 0;
}

/* What the mode of a capture forbids on other streams, too. */
static int unsafe(void) {
  return capturing && mode != cudaStreamCaptureModeRelaxed && mode_of_thread != cudaStreamCaptureModeRelaxed;
}

static int waited(int for_capture) {
  if (for_capture || unsafe())
    return forbidden();
  counts[WAITS]++;
  return 0;
}

API int cudaThreadExchangeStreamCaptureMode(int *other) {
  int before = mode_of_thread;
  mode_of_thread = *other;
  return *other = before, 0;
}

API int cudaStreamBeginCapture(void *stream, int as) {
  capturing = stream;
  mode = as;
  nodes = 0;
  captured_as++;
  return 0;
}

API int cudaStreamEndCapture(void *stream, void **graph) {
  capturing = NULL;
  counts[CAPTURES]++;
  *(uint64_t *)(*graph = handle()) = nodes;
  return 0;
}

API int cudaStreamIsCapturing(void *stream, int *status) { return *status = capturing && stream == capturing, 0; }

API int cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id, void **graph, const void **on,
                                 const void **edges, size_t *how_many) {
  cudaStreamIsCapturing(stream, status);
  if (id)
    *id = captured_as;
  if (graph)
    *graph = (void *)8;
  if (on)
    *on = NULL;
  if (edges)
    *edges = NULL;
  if (how_many)
    *how_many = 0;
  return 0;
}

API int cudaGraphInstantiateWithFlags(void **instance, void *graph, unsigned long long flags) {
  return *instance = graph, 0;
}
API int cudaGraphGetNodes(void *graph, void **found, size_t *how_many) { return *how_many = *(uint64_t *)graph, 0; }
API int cudaGraphLaunch(void *instance, void *stream) { return counts[GRAPH_LAUNCHES]++, 0; }

/* Streams and events, all at once */

API int cudaStreamCreate(void **stream) { return *stream = handle(), 0; }
API int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) { return *stream = handle(), 0; }
API int cudaStreamGetPriority(void *stream, int *priority) { return *priority = 0; }
API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *greatest = -5, *least = 0; }
API int cudaStreamSynchronize(void *stream) { return waited(capturing && stream == capturing); }
API int cudaDeviceSynchronize(void) { return waited(capturing != NULL); }
API int cudaEventSynchronize(void *event) { return waited(0); }
API int cudaEventCreate(void **event) { return *event = handle(), 0; }
API int cudaEventCreateWithFlags(void **event, unsigned flags) { return *event = handle(), 0; }
API int cudaEventDestroy(void *event) { return free(event), 0; }
API int cudaEventQuery(void *event) { return unsafe() ? forbidden() : 0; }
API int cudaEventElapsedTime(float *milliseconds, void *from, void *to) { return *milliseconds = 1, 0; }

/* Memory */

enum kind { PAGEABLE, PINNED, DEVICE };
static struct {
  char *at;
  size_t size;
  enum kind kind;
} blocks[1 << 16];
static int taken;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int take(void **at, size_t size, enum kind kind) {
  size = (size | 4095) + 1;
  *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  pthread_mutex_lock(&lock);
  blocks[taken].at = *at;
  blocks[taken].size = size;
  blocks[taken++].kind = kind;
  pthread_mutex_unlock(&lock);
  return 0;
}

static int give(void *at) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < taken; i++)
    if (blocks[i].at == at) {
      munmap(at, blocks[i].size);
      blocks[i] = blocks[--taken];
      break;
    }
  pthread_mutex_unlock(&lock);
  return 0;
}

static enum kind kind(const char *at) {
  for (int i = 0; i < taken; i++)
    if (at >= blocks[i].at && at < blocks[i].at + blocks[i].size)
      return blocks[i].kind;
  return PAGEABLE;
}

API int cudaMalloc(void **at, size_t size) { return take(at, size, DEVICE); }
API int cudaHostAlloc(void **at, size_t size, unsigned flags) { return take(at, size, PINNED); }
API int cudaFree(void *at) { return give(at); }
API int cudaFreeHost(void *at) { return give(at); }
API int cudaGetSymbolAddress(void **at, const void *symbol) { return take(at, 4096, DEVICE); }
API int cudaMemGetInfo(size_t *left, size_t *all) { return *left = *all = 80ul << 30, 0; }

API int cudaPointerGetAttributes(struct cudaPointerAttributes *found, const void *at) {
  memset(found, 0, sizeof *found);
  found->type = kind(at) == DEVICE   ? cudaMemoryTypeDevice
                : kind(at) == PINNED ? cudaMemoryTypeHost
                                     : cudaMemoryTypeUnregistered;
  found->devicePointer = (void *)at;
  return 0;
}

API int cudaMemcpyAsync(void *to, const void *from, size_t size, int direction, void *stream) {
  if (!size)
    return 0;
  if (capturing && stream == capturing && (kind(to) == PAGEABLE || kind(from) == PAGEABLE))
    return forbidden();
  if (kind(from) == DEVICE && kind(to) != DEVICE) {
    memset(to, size == 1, size);
    counts[DOWNLOADS]++;
  } else {
    memmove(to, from, size);
    counts[UPLOADS] += kind(from) != DEVICE;
  }
  return 0;
}

API int cudaMemcpy(void *to, const void *from, size_t size, int direction) {
  return waited(0) || cudaMemcpyAsync(to, from, size, direction, NULL);
}
API int cudaMemsetAsync(void *at, int value, size_t size, void *stream) { return memset(at, value, size), launched(); }
API int cudaMemset(void *at, int value, size_t size) { return memset(at, value, size), launched(); }

/* The device: an H100 by its figures */

API int cudaGetDeviceCount(int *count) { return *count = 1, 0; }
API int cudaGetDevice(int *device) { return *device = 0; }
API int cudaDeviceCanAccessPeer(int *can, int device, int peer) { return *can = 0; }
API int cudaRuntimeGetVersion(int *version) { return *version = 13000, 0; }
API int cudaDriverGetVersion(int *version) { return *version = 13000, 0; }
API const char *cudaGetErrorName(int code) { return code ? "cudaErrorNull" : "cudaSuccess"; }
API const char *cudaGetErrorString(int code) { return code ? "operation not permitted when stream is capturing" : "no error"; }
API int cudaPeekAtLastError(void) { return error; }
API int cudaGetLastError(void) {
  int last = error;
  error = 0;
  return last;
}

API int cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "null device");
  p->major = 9;
  p->totalGlobalMem = 80ul << 30;
  p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = 232448;
  p->sharedMemPerMultiprocessor = 233472;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->maxThreadsPerMultiProcessor = 2048;
  p->multiProcessorCount = 132;
  p->l2CacheSize = 50 << 20;
  p->memoryBusWidth = 5120;
  p->textureAlignment = 512;
  p->unifiedAddressing = p->concurrentKernels = p->streamPrioritiesSupported = 1;
  return 0;
}

API int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  struct cudaDeviceProp p;
  cudaGetDeviceProperties(&p, device);
  *value = attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin      ? p.sharedMemPerBlockOptin
           : attribute == cudaDevAttrMaxSharedMemoryPerMultiprocessor ? p.sharedMemPerMultiprocessor
           : attribute == cudaDevAttrMaxSharedMemoryPerBlock          ? p.sharedMemPerBlock
           : attribute == cudaDevAttrMaxRegistersPerBlock             ? p.regsPerBlock
           : attribute == cudaDevAttrMultiProcessorCount              ? p.multiProcessorCount
           : attribute == cudaDevAttrWarpSize                         ? p.warpSize
           : attribute == cudaDevAttrComputeCapabilityMajor           ? p.major
           : attribute == cudaDevAttrMaxThreadsPerBlock               ? p.maxThreadsPerBlock
           : attribute == cudaDevAttrMaxThreadsPerMultiProcessor      ? p.maxThreadsPerMultiProcessor
           : attribute == cudaDevAttrClockRate                        ? 1980000
           : attribute == cudaDevAttrMemoryClockRate                  ? 2619000
           : attribute == cudaDevAttrGlobalMemoryBusWidth             ? p.memoryBusWidth
                                                                      : 0;
  return 0;
}

/* Kernels */

API void **__cudaRegisterFatBinary(void *binary) { return handle(); }
API char __cudaInitModule(void **module) { return 1; }
API int __cudaGetKernel(const void **kernel, const void *function) { return *kernel = function, 0; }
API int __cudaPopCallConfiguration(void *grid, void *block, size_t *shared, void **stream) {
  memset(grid, 0, 12);
  memset(block, 0, 12);
  *stream = NULL;
  *shared = 0;
  return 0;
}
API int __cudaLaunchKernel(const void *kernel) { return launched(); }
API int cudaLaunchKernel(const void *kernel) { return launched(); }
API int cudaLaunchKernelExC(const void *config, const void *kernel) { return launched(); }
API int cudaLaunchCooperativeKernel(const void *kernel) { return launched(); }

API int cudaFuncGetAttributes(struct cudaFuncAttributes *found, const void *kernel) {
  memset(found, 0, sizeof *found);
  found->maxThreadsPerBlock = 1024;
  found->numRegs = 32;
  found->binaryVersion = found->ptxVersion = 90;
  return 0;
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel) { return *blocks = 2, 0; }
API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel) {
  return *blocks = 2, 0;
}

/* The driver, for Triton's kernels */

static int nothing(void) { return 0; }
API int cuInit(unsigned flags) { return 0; }
API int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
API int cuDeviceGet(int *device, int number) { return *device = 0; }
API int cuDeviceGetAttribute(int *value, int attribute, int device) {
  return cudaDeviceGetAttribute(value, attribute, device); /* the runtime's numbers are the driver's */
}
API int cuCtxGetCurrent(void **context) { return *context = (void *)8, 0; }
API int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = (void *)8, 0; }
API int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { return *active = 1, *flags = 0; }
API int cuModuleLoad(void **module, const char *file) { return *module = handle(), 0; }
API int cuModuleLoadData(void **module, const void *image) { return *module = handle(), 0; }
API int cuModuleGetFunction(void **function, void *module, const char *name) { return *function = handle(), 0; }
API int cuFuncGetAttribute(int *value, int attribute, void *function) { return *value = attribute ? 0 : 1024, 0; }
API int cuPointerGetAttribute(void *value, int attribute, unsigned long long at) {
  return attribute == 3 ? *(unsigned long long *)value = at, 0 : 0; /* 3: the address on the device */
}
API int cuLaunchKernel(void *function) { return launched(); }
API int cuLaunchKernelEx(const void *config, void *function) { return launched(); }
API int cuGetErrorString(int code, const char **text) { return *text = "null", 0; }
API int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags,
                                         int *found) {
  *function = dlsym(RTLD_DEFAULT, name);
  if (!*function)
    *function = (void *)nothing;
  if (found)
    *found = 0;
  return 0;
}

/* cuBLAS, and of cuSOLVER how much memory torch.linalg.qr() needs */

API int cublasCreate_v2(void **made) { return *made = handle(), 0; }
API size_t cublasLtGetVersion(void) { return 130100; }
API int cublasGetVersion_v2(void *of, int *version) { return *version = 130100, 0; }
API int cublasGetPointerMode_v2(void *of, int *mode) { return *mode = 0; }
API int cublasGetMathMode(void *of, int *mode) { return *mode = 0; }
API int cublasSgemm_v2(void *of) { return launched(); }
API int cublasSgemv_v2(void *of) { return launched(); }
API int cublasGemmEx(void *of) { return launched(); }
API int cublasSgemmStridedBatched(void *of) { return launched(); }
API int cublasLtMatmul(void *of) { return launched(); }
API int cublasLtMatmulDescCreate(void **made, int compute, int scale) { return *made = handle(), 0; }
API int cublasLtMatmulPreferenceCreate(void **made) { return *made = handle(), 0; }
API int cublasLtMatrixLayoutCreate(void **made, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  return *made = handle(), 0;
}
API int cublasLtMatmulAlgoGetHeuristic(void *of, void *operation, void *a, void *b, void *c, void *d, void *preference,
                                       int wanted, void *results, int *found) {
  memset(results, 0, 64);
  return *found = 1, 0;
}
API int cusolverDnXgeqrf_bufferSize(void *of, void *parameters, int64_t rows, int64_t columns, int type_a, void *a,
                                    int64_t leading, int type_tau, void *tau, int type, size_t *device, size_t *host) {
  return *device = *host = 8, 0;
}
API int cusolverDnSorgqr_bufferSize(void *of, int rows, int columns, int k, void *a, int leading, void *tau, int *size) {
  return *size = 8, 0;
}
