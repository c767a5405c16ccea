// SPDX-License-Identifier: Apache-2.0

// Nothing is exported: loading this module calls start().
export {};
