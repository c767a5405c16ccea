/* SPDX-License-Identifier: Apache-2.0 */
/* victim-nothing: the smallest process there is, for storms of them. Static: nothing is loaded for it. */
int main(void) {
        return 0;
}
