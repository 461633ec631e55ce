/*
 * Copyright (c) 2026, modelfleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/*
 * libnvidia-ml.so.1 without a GPU: answers from a state file that is read again at each call, so that what a test
 * writes is seen at once, by every process. Declarations come from the official header.
 */

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "state.h"

#define EXPORT __attribute__((visibility("default")))

/* A handle is the address of one of these. */
static char tokens[MAX_GPUS];
static atomic_int users;

static nvmlReturn_t error_for(const struct gpu *gpu, const char *function)
{
    nvmlReturn_t code = NVML_SUCCESS;

    /* The last line that fits counts, so that an override can take a default back. */
    for (int i = 0; i < gpu->error_count; i++)
        if (strcmp(gpu->errors[i].function, function) == 0 || strcmp(gpu->errors[i].function, "*") == 0)
            code = gpu->errors[i].code;
    return code;
}

static nvmlReturn_t enter(struct state *state)
{
    if (atomic_load(&users) <= 0)
        return NVML_ERROR_UNINITIALIZED;
    state_load(state, false);
    return NVML_SUCCESS;
}

static nvmlReturn_t enter_device(struct state *state, nvmlDevice_t device, struct gpu **gpu, const char *function)
{
    nvmlReturn_t code = enter(state);
    char *token = (char *)device;

    if (code != NVML_SUCCESS)
        return code;
    if (token < tokens || token >= tokens + state->count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *gpu = &state->gpus[token - tokens];
    return error_for(*gpu, function);
}

#define ENTER()                                                                                                        \
    struct state state;                                                                                                \
    nvmlReturn_t entered = enter(&state);                                                                              \
    if (entered != NVML_SUCCESS)                                                                                       \
        return entered

#define ENTER_DEVICE(device)                                                                                           \
    struct state state;                                                                                                \
    struct gpu *gpu;                                                                                                   \
    nvmlReturn_t entered = enter_device(&state, device, &gpu, __func__);                                               \
    if (entered != NVML_SUCCESS)                                                                                       \
        return entered

static nvmlReturn_t give_text(char *target, unsigned size, const char *text)
{
    if (target == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(target, text);
    return NVML_SUCCESS;
}

/* Functions that give one value, and functions that this card never answers. */
#define GIVE(function, type, value)                                                                                    \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, type *target)                                                    \
    {                                                                                                                  \
        ENTER_DEVICE(device);                                                                                          \
        if (target == NULL)                                                                                            \
            return NVML_ERROR_INVALID_ARGUMENT;                                                                        \
        *target = (value);                                                                                             \
        return NVML_SUCCESS;                                                                                           \
    }

#define GIVE_TEXT(function, value)                                                                                     \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, char *target, unsigned size)                                     \
    {                                                                                                                  \
        ENTER_DEVICE(device);                                                                                          \
        return give_text(target, size, value);                                                                         \
    }

#define REFUSE(code, function, ...)                                                                                    \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, __VA_ARGS__)                                                     \
    {                                                                                                                  \
        ENTER_DEVICE(device);                                                                                          \
        return code;                                                                                                   \
    }

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    struct state state;

    (void)flags;
    state_load(&state, true); /* once for each program is enough */
    if (state.init_error == NVML_SUCCESS)
        atomic_fetch_add(&users, 1);
    return state.init_error;
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    if (atomic_load(&users) <= 0)
        return NVML_ERROR_UNINITIALIZED;
    atomic_fetch_sub(&users, 1);
    return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    static const char *const texts[] = {
        [NVML_SUCCESS] = "Success",
        [NVML_ERROR_UNINITIALIZED] = "Uninitialized",
        [NVML_ERROR_INVALID_ARGUMENT] = "Invalid Argument",
        [NVML_ERROR_NOT_SUPPORTED] = "Not Supported",
        [NVML_ERROR_NO_PERMISSION] = "Insufficient Permissions",
        [NVML_ERROR_NOT_FOUND] = "Not Found",
        [NVML_ERROR_INSUFFICIENT_SIZE] = "Insufficient Size",
        [NVML_ERROR_DRIVER_NOT_LOADED] = "Driver Not Loaded",
        [NVML_ERROR_TIMEOUT] = "Timeout",
        [NVML_ERROR_LIBRARY_NOT_FOUND] = "NVML Shared Library Not Found",
        [NVML_ERROR_FUNCTION_NOT_FOUND] = "Function Not Found",
        [NVML_ERROR_GPU_IS_LOST] = "GPU is lost",
        [NVML_ERROR_RESET_REQUIRED] = "GPU requires reset",
        [NVML_ERROR_LIB_RM_VERSION_MISMATCH] = "Driver/library version mismatch",
        [NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = "Argument Version Mismatch",
        [NVML_ERROR_DEPRECATED] = "Requested functionality has been deprecated",
    };

    if (result < sizeof texts / sizeof *texts && texts[result] != NULL)
        return texts[result];
    return "Unknown Error";
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *target, unsigned size)
{
    ENTER();
    return give_text(target, size, state.driver);
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *target, unsigned size)
{
    ENTER();
    return give_text(target, size, state.nvml);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    ENTER();
    *version = state.cuda;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned size)
{
    char path[64], words[256] = "";
    FILE *file;

    ENTER();
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    file = fopen(path, "r");
    if (file == NULL)
        return NVML_ERROR_NOT_FOUND;
    if (fread(words, 1, sizeof words - 1, file) == 0)
        strcpy(words, "-"); /* a kernel thread or a process that is just going */
    fclose(file);
    snprintf(name, size, "%s", words); /* up to the first NUL: the command without its arguments */
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    ENTER();
    *count = state.count;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
    return nvmlDeviceGetCount_v2(count);
}

static nvmlReturn_t give_handle(const struct state *state, unsigned index, nvmlDevice_t *device, const char *function)
{
    nvmlReturn_t code;

    if (index >= (unsigned)state->count)
        return NVML_ERROR_INVALID_ARGUMENT;
    code = error_for(&state->gpus[index], function);
    if (code == NVML_SUCCESS)
        *device = (nvmlDevice_t)&tokens[index];
    return code;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    ENTER();
    return give_handle(&state, index, device, __func__);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    ENTER();
    for (int i = 0; i < state.count; i++)
        if (strcmp(uuid, state.gpus[i].uuid) == 0)
            return give_handle(&state, i, device, __func__);
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pci, nvmlDevice_t *device)
{
    ENTER();
    for (int i = 0; i < state.count; i++)
        if (strcasecmp(pci, state.gpus[i].pci) == 0)
            return give_handle(&state, i, device, __func__);
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pci, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(pci, device);
}

GIVE(nvmlDeviceGetIndex, unsigned, (unsigned)(gpu - state.gpus))
GIVE(nvmlDeviceGetMinorNumber, unsigned, gpu->minor_number)
GIVE(nvmlDeviceGetNumaNodeId, unsigned, gpu->numa_node)
GIVE(nvmlDeviceGetBrand, nvmlBrandType_t, NVML_BRAND_NVIDIA_RTX)
GIVE_TEXT(nvmlDeviceGetName, gpu->name)
GIVE_TEXT(nvmlDeviceGetUUID, gpu->uuid)
GIVE_TEXT(nvmlDeviceGetSerial, gpu->serial)
GIVE_TEXT(nvmlDeviceGetVbiosVersion, "98.02.8D.00.01")

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    unsigned domain, bus, slot;

    ENTER_DEVICE(device);
    if (sscanf(gpu->pci, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return NVML_ERROR_UNKNOWN;
    memset(pci, 0, sizeof *pci);
    pci->domain = domain;
    pci->bus = bus;
    pci->device = slot;
    pci->pciDeviceId = 0x2BB510DE;
    pci->pciSubSystemId = 0x204E10DE;
    snprintf(pci->busId, sizeof pci->busId, "%s", gpu->pci);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", domain & 0xFFFF, bus & 0xFF, slot & 0xFF);
    return NVML_SUCCESS;
}

static unsigned architecture(unsigned major, unsigned minor)
{
    if (major >= 10)
        return NVML_DEVICE_ARCH_BLACKWELL;
    if (major == 9)
        return NVML_DEVICE_ARCH_HOPPER;
    if (major == 8)
        return minor == 9 ? NVML_DEVICE_ARCH_ADA : NVML_DEVICE_ARCH_AMPERE;
    return NVML_DEVICE_ARCH_UNKNOWN;
}

GIVE(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, architecture(gpu->cc_major, gpu->cc_minor))

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    ENTER_DEVICE(device);
    *major = (int)gpu->cc_major;
    *minor = (int)gpu->cc_minor;
    return NVML_SUCCESS;
}

/* The first version of the call counts the driver's reserve as used; the second keeps it apart. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    ENTER_DEVICE(device);
    memory->total = gpu->memory_total;
    memory->used = gpu_memory_used(gpu) + gpu->memory_reserved;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    ENTER_DEVICE(device);
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = gpu->memory_total;
    memory->reserved = gpu->memory_reserved;
    memory->used = gpu_memory_used(gpu);
    memory->free = memory->total - memory->used - memory->reserved;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    ENTER_DEVICE(device);
    memory->bar1Total = 131072ULL << 20;
    memory->bar1Used = 1ULL << 20;
    memory->bar1Free = memory->bar1Total - memory->bar1Used;
    return NVML_SUCCESS;
}

static nvmlReturn_t give_processes(const struct gpu *gpu, bool graphics, unsigned *count, nvmlProcessInfo_t *infos)
{
    unsigned room = *count, wanted = 0;

    for (int i = 0; i < gpu->process_count; i++) {
        const struct process *process = &gpu->processes[i];
        if (process->graphics != graphics)
            continue;
        if (wanted < room && infos != NULL) {
            infos[wanted].pid = process->pid;
            infos[wanted].usedGpuMemory = process->bytes;
            infos[wanted].gpuInstanceId = infos[wanted].computeInstanceId = 0xFFFFFFFF;
        }
        wanted++;
    }
    *count = wanted;
    return wanted > room || (wanted > 0 && infos == NULL) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define GIVE_PROCESSES(function, graphics)                                                                             \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos)                       \
    {                                                                                                                  \
        ENTER_DEVICE(device);                                                                                          \
        return give_processes(gpu, graphics, count, infos);                                                            \
    }

GIVE_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, false)
GIVE_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, true)

EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                               nvmlProcessInfo_t *infos)
{
    (void)infos;
    ENTER_DEVICE(device);
    *count = 0;
    return NVML_SUCCESS;
}

/* An idle card drops to generation 1; that is no fault. */
static unsigned generation_now(const struct gpu *gpu)
{
    if (gpu->pcie_generation != 0)
        return gpu->pcie_generation;
    return gpu_memory_used(gpu) > 0 ? gpu->pcie_generation_max : 1;
}

GIVE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, generation_now(gpu))
GIVE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, gpu->pcie_generation_max)
GIVE(nvmlDeviceGetCurrPcieLinkWidth, unsigned, gpu->pcie_width)
GIVE(nvmlDeviceGetMaxPcieLinkWidth, unsigned, gpu->pcie_width_max)
GIVE(nvmlDeviceGetPerformanceState, nvmlPstates_t, gpu_memory_used(gpu) > 0 ? NVML_PSTATE_1 : NVML_PSTATE_8)
GIVE(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, gpu->persistence)
GIVE(nvmlDeviceGetPowerUsage, unsigned, gpu->power)
GIVE(nvmlDeviceGetPowerManagementLimit, unsigned, gpu->power_limit)
GIVE(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, 600000)
GIVE(nvmlDeviceGetEnforcedPowerLimit, unsigned, gpu->power_limit)
GIVE(nvmlDeviceGetMaxMigDeviceCount, unsigned, 4)

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *least, unsigned *most)
{
    ENTER_DEVICE(device);
    *least = 300000;
    *most = 600000;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned *celsius)
{
    ENTER_DEVICE(device);
    if (sensor != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_NOT_SUPPORTED;
    *celsius = gpu->temperature;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    ENTER_DEVICE(device);
    if (temperature->sensorType != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_NOT_SUPPORTED;
    temperature->temperature = (int)gpu->temperature;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    ENTER_DEVICE(device);
    rates->gpu = gpu->utilization;
    rates->memory = gpu->utilization / 2;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *now, nvmlEnableState_t *pending)
{
    ENTER_DEVICE(device);
    *now = *pending = gpu->ecc;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                                nvmlEccCounterType_t counter, unsigned long long *count)
{
    (void)counter;
    ENTER_DEVICE(device);
    *count = type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? gpu->ecc_uncorrected : 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected,
                                              unsigned *pending, unsigned *failed)
{
    ENTER_DEVICE(device);
    *corrected = *uncorrected = *failed = 0;
    *pending = gpu->rows_pending;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *now, unsigned *pending)
{
    ENTER_DEVICE(device);
    *now = *pending = gpu->mig;
    return NVML_SUCCESS;
}

/* Pairs share a switch, four share a socket. */
EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other,
                                                        nvmlGpuTopologyLevel_t *level)
{
    struct gpu *second;
    nvmlReturn_t code;

    ENTER_DEVICE(device);
    code = enter_device(&state, other, &second, __func__);
    if (code != NVML_SUCCESS)
        return code;
    if (gpu == second)
        *level = NVML_TOPOLOGY_INTERNAL;
    else if ((gpu - state.gpus) / 2 == (second - state.gpus) / 2)
        *level = NVML_TOPOLOGY_SINGLE;
    else
        *level = gpu->numa_node == second->numa_node ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t which,
                                           nvmlGpuP2PStatus_t *status)
{
    (void)other;
    ENTER_DEVICE(device);
    *status = which == NVML_P2P_CAPS_INDEX_NVLINK ? NVML_P2P_STATUS_NOT_SUPPORTED : NVML_P2P_STATUS_OK;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    ENTER_DEVICE(device);
    for (int i = 0; i < count; i++)
        values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

REFUSE(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetFanSpeed, unsigned *percent)
REFUSE(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetNvLinkState, unsigned link, nvmlEnableState_t *active)
REFUSE(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetGpuFabricInfoV, nvmlGpuFabricInfoV_t *info)
REFUSE(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t *pending)
REFUSE(NVML_ERROR_DEPRECATED, nvmlDeviceGetDisplayMode, nvmlEnableState_t *mode)
REFUSE(NVML_ERROR_DEPRECATED, nvmlDeviceGetApplicationsClock, nvmlClockType_t type, unsigned *clock)
