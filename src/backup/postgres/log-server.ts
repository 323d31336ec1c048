/** Gives a recovering PostgreSQL the segments of its log out of the repository, a few at a time: all of them would not fit on a disk. */

import { chown, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Repository } from '../repository/repository.ts'
import type { Programs } from './programs.ts'
import { isHistory, parseSegment, segmentName } from './wal-names.ts'
import { walName } from './wal-receiver.ts'

/** Segments ahead of the one that was asked for last: 256 MiB. */
const AHEAD = 16
const LOOK_MS = 20
/** Names the segment that was asked for last. */
const ASKED = 'asked'

export interface LogOptions {
  readonly repository: Repository
  readonly programs: Programs
  /** That PostgreSQL may enter. */
  readonly folder: string
  /** The first segment, the last one of the copy of the files, and the last one of all. */
  readonly first: string
  readonly copied: string
  readonly last: string
}

/**
 * A command for `restore_command`. It waits for a segment that is on its way; one that is not to come is told by another file, and none
 * comes without the folder. It never waits for a history, since all of them are there from the start.
 */
export const restoreCommand = (folder: string): string =>
  [
    `f="${folder}/%f"`,
    `echo %f > "${folder}/${ASKED}.new" && mv "${folder}/${ASKED}.new" "${folder}/${ASKED}"`,
    `while [ ! -f "$f" ]; do case %f in *.history) exit 1;; esac; if [ -f "$f.absent" ] || [ -f "${folder}/end" ] || [ ! -d "${folder}" ]; then exit 1; fi; sleep 0.05; done`,
    `cp "$f" "%p"`,
  ].join('; ')

/** Serves until the signal aborts. @throws FileMissing, SealBroken */
export async function serveLog(options: LogOptions, signal: AbortSignal): Promise<void> {
  const { first, copied, last, folder } = options
  const [from, base, to] = [parseSegment(first), parseSegment(copied), parseSegment(last)]
  if (from === undefined || base === undefined || to === undefined) throw new TypeError('no segments')
  const nameOf = (number: number) => segmentName({ ...to, number })
  let [next, kept, asked] = [from.number, from.number, from.number]
  while (!signal.aborted) {
    asked = Math.max(asked, await readAsked(folder))
    for (; next <= Math.min(to.number, Math.max(base.number, asked) + AHEAD); next += 1)
      await provide(options, nameOf(next))
    if (next > to.number) await own(options, join(folder, 'end'), '')
    // Recovery goes back to the start of the copy until it is past its end.
    if (asked > base.number + 1)
      for (; kept < asked - 1; kept += 1) await rm(join(folder, nameOf(kept)), { force: true })
    await pause(LOOK_MS, undefined, { signal }).catch(() => {})
  }
}

/** Makes the folder, with the histories of all timelines, from which PostgreSQL chooses the number of the next one. */
export async function prepareLog(options: LogOptions): Promise<void> {
  const { repository, folder, programs } = options
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (programs.account) await chown(folder, programs.account.uid, programs.account.gid)
  for (const { name } of await repository.list(walName('')))
    if (isHistory(name.slice(walName('').length))) await provide(options, name.slice(walName('').length))
}

async function provide(options: LogOptions, segment: string): Promise<void> {
  const { repository, folder } = options
  const name = walName(segment)
  // The copy of the files has its own log.
  if (segment <= options.copied && !(await repository.store.has(name)))
    return own(options, join(folder, `${segment}.absent`), '')
  await own(options, join(folder, segment), repository.readCompressed(name))
}

/** Writes a file that the account of the server may read; it is there complete or not at all. */
async function own(
  { programs: { account } }: LogOptions,
  path: string,
  content: Parameters<typeof writeFile>[1],
): Promise<void> {
  const draft = `${path}.draft`
  await writeFile(draft, content, { mode: 0o600 })
  if (account) await chown(draft, account.uid, account.gid)
  await rename(draft, path)
}

async function readAsked(folder: string): Promise<number> {
  const text = await readFile(join(folder, ASKED), 'utf8').catch(() => '')
  return parseSegment(text.trim())?.number ?? 0
}
