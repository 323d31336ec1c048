/** The clock of a process that differs from that of its machine: libfaketime of Debian's package, since time namespaces have no offset for the time of the day. */

import { debianProgram } from './debian.ts'

/** @returns the environment of a process whose time of the day is later by these seconds; timers run as they do */
export async function clockAhead(seconds: number): Promise<Record<string, string>> {
  const machine = process.arch === 'arm64' ? 'aarch64' : 'x86_64'
  const { path } = await debianProgram(
    'libfaketime',
    `usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`,
  )
  return {
    LD_PRELOAD: path,
    FAKETIME: `${seconds < 0 ? '' : '+'}${seconds}s`,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    // Times of files are those of the machine.
    NO_FAKE_STAT: '1',
  }
}
