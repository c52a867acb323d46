/* SPDX-License-Identifier: BSD-3-Clause */
/* vfork(), which returns first to the child, that runs on its parent's stack, and then to the
 * parent. A function of ours that called it would return to the parent with a frame that the
 * child has overwritten. So this one has none when it jumps to the next definition, whose
 * address rr_lends() returns. Where vfork() is not here it is not ours (process.c, AT_FIRST). */

#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)

	.text
	.hidden	rr_lends
	.globl	vfork, __vfork
	.type	vfork, %function
	.type	__vfork, %function
vfork:
__vfork:
	.cfi_startproc
#if defined(__x86_64__)
	endbr64
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	rr_lends
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	jmp	*%rax
#elif defined(__i386__)
	endbr32
	sub	$12, %esp
	.cfi_adjust_cfa_offset 12
	call	rr_lends
	add	$12, %esp
	.cfi_adjust_cfa_offset -12
	jmp	*%eax
#else
	hint	#34			/* bti c */
	stp	x29, x30, [sp, #-16]!
	.cfi_adjust_cfa_offset 16
	bl	rr_lends
	ldp	x29, x30, [sp], #16
	.cfi_adjust_cfa_offset -16
	mov	x16, x0
	br	x16
#endif
	.cfi_endproc
	.size	vfork, . - vfork
	.size	__vfork, . - __vfork

#endif

	.section .note.GNU-stack, "", %progbits
