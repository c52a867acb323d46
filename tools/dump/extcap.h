/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_EXTCAP_H
#define RR_EXTCAP_H

/* Wireshark's extcap interface: if the arguments are its questions, answers and ends the
 * program; if they ask for a capture, turns them into our own. Returns the number of arguments.
 */
int rr_extcap(int argc, char ***argv);

#endif
