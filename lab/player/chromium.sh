#!/bin/sh
# Starts Chromium so that the kernel ends it as soon as the program that started it has ended.
# Chromium makes a socket in its folder for temporary files, whose path must have less than 108
# bytes. The path of this folder may be longer.
cd "${TMPDIR:-/tmp}" || exit 1
TMPDIR=/proc/self/cwd exec setpriv --pdeathsig KILL -- "${CHROMIUM:-/usr/bin/chromium}" "$@"
