/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as rdmarpc.conf: what comes out is within its bounds, problems are whole lines,
 * and rules can be asked. */
#include "tests/fuzz/conf_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rr_conf c;

	memset(&c, 0, sizeof(c));
	for (uint32_t i = 0; i < rr_noptions; i++)
		rr_option_default(&c, &rr_options[i]);
	rr_conf_bytes(&c, "fuzz", (const char *)data, size);
	rr_conf_rules(&c, "FUZZ", (const char *)data, size);
	check_numbers(&c);
	check_problems(&c);
	ask(&c);
	rr_conf_log_problems(&c);
	return 0;
}
