/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Confinement
 *
 * Gives up, for good, the system calls that neither sampling nor shipping needs and that an attacker who
 * has taken the process over would want: to start programs, to steer or write other processes, to mount, to
 * load kernel modules. It holds everywhere, not only where a unit or a container runtime has a filter;
 * docs/SECURITY.md says against whom.
 */

/*
 * For all threads that are started from now on. Those calls then fail with EPERM. Return: 0, -errno (the
 * kernel cannot).
 */
int confine(void);
