// SPDX-License-Identifier: Apache-2.0
// The one mark that lets a function run on the host and, where a CUDA compiler reads it, on the device.
#pragma once

#ifdef __CUDACC__
#define EXEUNT_HOST_DEVICE __host__ __device__
#else
#define EXEUNT_HOST_DEVICE
#endif
