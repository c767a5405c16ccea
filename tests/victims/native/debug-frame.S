/* SPDX-License-Identifier: Apache-2.0 */

/*
 * main → top → mid → hot, x86-64 assembly whose rows are in .debug_frame alone, as `.cfi_sections .debug_frame`
 * asks for. The C library's own startup code has .eh_frame. How much mid() takes of the stack is in a register:
 * its code alone does not tell. It ends after some seconds of CPU time.
 */
        .cfi_sections .debug_frame
        .text

        .type   hot, @function
hot:
        .cfi_startproc
        mov     $20000000, %ecx
1:      imul    $31, %rdx, %rdx
        dec     %ecx
        jnz     1b
        ret
        .cfi_endproc
        .size   hot, .-hot

        .type   mid, @function
mid:
        .cfi_startproc
        mov     $72, %eax
        sub     %rax, %rsp
        .cfi_adjust_cfa_offset 72
        call    hot
        mov     $72, %eax
        add     %rax, %rsp
        .cfi_adjust_cfa_offset -72
        ret
        .cfi_endproc
        .size   mid, .-mid

        .type   top, @function
top:
        .cfi_startproc
        push    %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbx, 0
        call    mid
        pop     %rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbx
        ret
        .cfi_endproc
        .size   top, .-top

        .globl  main
        .type   main, @function
main:
        .cfi_startproc
        push    %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbx, 0
        mov     $100, %ebx
1:      call    top
        dec     %ebx
        jnz     1b
        pop     %rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbx
        xor     %eax, %eax
        ret
        .cfi_endproc
        .size   main, .-main

        .section .note.GNU-stack, "", @progbits
