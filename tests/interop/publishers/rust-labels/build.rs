// SPDX-License-Identifier: Apache-2.0
// Readers find the variable by its name, which an executable does not export by itself.
fn main() {
    custom_labels::build::emit_build_instructions();
}
