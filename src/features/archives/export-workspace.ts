/** Exports a workspace: writes all that it has at one moment to an archive. */

import { privilege } from '../../access/privileges.ts'
import type { AdminScope } from '../../access/scope.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { findRow } from '../operation-helpers.ts'
import { archiveFile, type StoredArchive } from './archive-files.ts'
import { type ArchiveCounts, FORMAT, FORMAT_VERSION, HEAD, type Head } from './format/layout.ts'
import { ArchiveWriter } from './format/writer.ts'
import { packed } from './format/zstd.ts'
import { gatherMissing, type Source } from './part.ts'
import { PARTS } from './parts/index.ts'

const openSnapshot = privilege('archives.snapshot')

export interface Exported extends StoredArchive {
  readonly counts: ArchiveCounts
  /** What has to be set by hand where it is imported. */
  readonly missing: readonly string[]
}

/**
 * Writes the archive anew at every attempt: each is of one moment, that of its own beginning.
 * @param attempt of the operation, which names the file
 * @param progress is told what was written so far; it throws to end the export
 * @throws Problem `dependency_unavailable`, also if bytes of an object have vanished: an archive is complete, or there is none
 */
export async function exportWorkspace(
  scope: AdminScope,
  ref: WorkspaceRef,
  {
    operationId,
    attempt,
    url,
    progress,
  }: {
    readonly operationId: string
    readonly attempt: number
    readonly url: string
    readonly progress: (counts: ArchiveCounts) => void
  },
): Promise<Exported> {
  return openSnapshot(scope, ref, async (snapshot) => {
    const missing = gatherMissing()
    const writer = new ArchiveWriter()
    const source = { ...snapshot, missing: missing.tell }
    const chunks = reported(members(writer, source, url), () => progress(writer.counts))
    const stored = await archiveFile(scope, ref, operationId, attempt).write(packed(chunks))
    return { ...stored, attempt, counts: writer.counts, missing: missing.list() }
  })
}

async function* members(writer: ArchiveWriter, source: Source, url: string): AsyncGenerator<Uint8Array> {
  const head = await readHead(source, url)
  yield* writer.small(HEAD, Buffer.from(JSON.stringify(head)))
  for (const part of PARTS) yield* part.write(writer, source)
  yield* writer.end()
}

async function readHead({ structure }: Source, url: string): Promise<Head> {
  const { exported_at, ...origin } = await findRow<Omit<Head['origin'], 'url'> & { exported_at: string }>(
    structure,
    'workspace',
    sql`select tenant_id, id as workspace_id, name, slug, bucket, now() as exported_at from workspaces
      where id = ${structure.ref.workspaceId}`,
  )
  return {
    format: FORMAT,
    version: FORMAT_VERSION,
    kind: 'workspace',
    exported_at,
    origin: { url, ...origin },
  }
}

async function* reported(chunks: AsyncIterable<Uint8Array>, report: () => void): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    yield chunk
    report()
  }
}
