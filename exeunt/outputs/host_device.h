// SPDX-License-Identifier: Apache-2.0
// The qualifier for functions that run on the host and, compiled by CUDA, on the device.
#pragma once

#ifdef __CUDACC__
#define EXEUNT_HOST_DEVICE __host__ __device__
#else
#define EXEUNT_HOST_DEVICE
#endif
