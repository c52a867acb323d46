#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All of tests/apps over verbs.
# At most 2400 s.
cases=$(dirname "$0")
# shellcheck disable=SC2046 # words
exec "$cases/apps.sh" $(sed -n 's/^\([a-z][^[:space:]]*\)[[:space:]].*/\1/p' "$cases/../../apps/cases")
