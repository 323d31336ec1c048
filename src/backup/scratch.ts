/** Folders for what is decrypted for a while. A process that is killed leaves its folder, and the next one removes it. */

import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { identify } from '../../stack/lock.mjs'

/** The number of the process follows. */
const PREFIX = 'tenon-backup-'

export async function withScratch<T>(work: (folder: string) => Promise<T>): Promise<T> {
  await removeLeftovers()
  const folder = await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-`))
  try {
    return await work(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = Number(name.startsWith(PREFIX) ? name.slice(PREFIX.length).split('-')[0] : Number.NaN)
    if (!Number.isInteger(pid) || identify(pid) !== undefined) continue
    // That of another account stays.
    await rm(join(tmpdir(), name), { recursive: true, force: true }).catch(() => {})
  }
}
