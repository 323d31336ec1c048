/** Copies the store that has no log of its own: the file of Temporal's development server, with the payloads of its executions. */

import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type Blob, copyBlobs, findPayloads } from './blobs.ts'
import type { Installation } from './installation.ts'
import { momentId, type StateCopy, type States } from './manifests.ts'
import type { Member, Repository } from './repository/repository.ts'
import { withScratch } from './scratch.ts'

const FOLDER = 'states'

/** @param known as of {@link copyBlobs} */
export async function copyStates(
  { temporalFile, objects }: Pick<Installation, 'temporalFile' | 'objects'>,
  repository: Repository,
  at: string,
  known: Set<string>,
): Promise<States> {
  if (temporalFile === undefined) return {}
  const folder = `${FOLDER}/${momentId(at)}`
  const member = await copySqlite(repository, temporalFile, `${folder}/temporal.db`)
  // After the file: what it refers to is there already.
  const payloads = await findPayloads(objects)
  // One that has gone since was of an execution that has gone, too.
  const gone = new Set(await copyBlobs(repository, objects, payloads, known))
  const temporal: StateCopy = {
    at,
    member,
    payloads: await repository.writeJson(
      `${folder}/payloads`,
      payloads.filter((one) => !gone.has(one)),
    ),
  }
  return { temporal }
}

/** The payloads that belong to a copy of Temporal. */
export const copiedPayloads = async (repository: Repository, { temporal }: States): Promise<Blob[]> =>
  temporal?.payloads === undefined ? [] : repository.readJson<Blob[]>(temporal.payloads.name)

/** Longer than the server keeps its file locked for a write. */
const LOCKED_MS = 30_000

/** A copy of one moment, while the server writes. */
const copySqlite = (repository: Repository, file: string, name: string): Promise<Member> =>
  withScratch(async (scratch) => {
    const copy = join(scratch, 'copy.db')
    // The schema of Temporal has texts in double quotes.
    const source = new DatabaseSync(file, {
      ...{ readOnly: true, timeout: LOCKED_MS, enableDoubleQuotedStringLiterals: true },
    })
    try {
      // In one transaction. The online backup of SQLite begins again with each write of the server, and does not wait for its locks.
      source.prepare('vacuum into ?').run(copy)
    } finally {
      source.close()
    }
    return repository.writeCompressed(name, createReadStream(copy))
  })
