/** Copies the whole of a running PostgreSQL with pg_basebackup, or what has changed since an earlier copy. */

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Member, Repository } from '../repository/repository.ts'
import { withScratch } from '../scratch.ts'
import { connectionOf, type Programs, readOutput } from './programs.ts'
import { watchTar } from './tar-member.ts'
import { segmentName, WAL_BYTES } from './wal-names.ts'

/** PostgreSQL's own list of the files of a copy, which also says which part of the log it needs. */
const MANIFEST = 'backup_manifest'

export interface BaseBackup {
  readonly base: Member
  /** {@link MANIFEST}, from which the next incremental copy is made. */
  readonly manifest: Member
  /** The first and the last segment of the log without which the copy is not consistent. */
  readonly firstWal: string
  readonly lastWal: string
}

interface ServerManifest {
  readonly 'WAL-Ranges': readonly {
    readonly Timeline: number
    readonly 'Start-LSN': string
    readonly 'End-LSN': string
  }[]
}

/**
 * @param folder of the repository
 * @param parent {@link MANIFEST} of the copy whose changes are wanted; undefined: all
 * @throws Error with the reason of pg_basebackup, such as that the server does not summarize its log (`summarize_wal`)
 */
export function copyBase(
  { programs, url, repository }: { programs: Programs; url: string; repository: Repository },
  folder: string,
  parent?: string,
): Promise<BaseBackup> {
  const { args, env } = connectionOf(url)
  let text: Buffer | undefined
  return withScratch(async (scratch) => {
    const incremental =
      parent === undefined ? [] : [`--incremental=${await writeManifest(repository, parent, scratch)}`]
    const archive = readOutput(
      programs,
      'pg_basebackup',
      // In one stream, which holds the log of the time of the copy.
      [
        ...args,
        ...incremental,
        '--format=tar',
        '--pgdata=-',
        '--wal-method=fetch',
        '--checkpoint=fast',
        '--label=tenon',
      ],
      env,
    )
    const keep = (bytes: Buffer) => {
      text = bytes
    }
    const base = await repository.writeCompressed(`${folder}/base.tar`, watchTar(archive, MANIFEST, keep))
    if (text === undefined) throw new Error('pg_basebackup has written no manifest.')
    const manifest = await repository.writeCompressed(`${folder}/${MANIFEST}`, once(text))
    return { base, manifest, ...walOf(JSON.parse(text.toString('utf8')) as ServerManifest) }
  })
}

async function writeManifest(repository: Repository, name: string, scratch: string): Promise<string> {
  const path = join(scratch, MANIFEST)
  await writeFile(path, repository.readCompressed(name))
  return path
}

/** The log between the start of the copy and its end, of the last timeline. */
function walOf({ 'WAL-Ranges': ranges }: ServerManifest): Pick<BaseBackup, 'firstWal' | 'lastWal'> {
  const [first, last] = [ranges[0], ranges.at(-1)]
  if (first === undefined || last === undefined)
    throw new Error('The manifest of pg_basebackup names no log.')
  return {
    firstWal: segmentOf(first.Timeline, first['Start-LSN'], 0),
    // The position behind the last byte.
    lastWal: segmentOf(last.Timeline, last['End-LSN'], 1),
  }
}

/** @param position such as `0/2000028` */
function segmentOf(timeline: number, position: string, before: number): string {
  const [high = '0', low = '0'] = position.split('/')
  const bytes = Number.parseInt(high, 16) * 0x1_0000_0000 + Number.parseInt(low, 16) - before
  return segmentName({ timeline, number: Math.floor(bytes / WAL_BYTES) })
}

async function* once(bytes: Buffer) {
  yield bytes
}
