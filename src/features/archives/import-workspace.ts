/** Imports an archive as a new workspace: checks all of it first, then stores it where nobody looks yet. */

import { privilege } from '../../access/privileges.ts'
import type { AdminScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { archiveFile } from './archive-files.ts'
import { ArchiveChecks } from './checks.ts'
import { type ArchiveCounts, type Head, invalid, MANIFEST } from './format/layout.ts'
import { type Member, openArchive } from './format/reader.ts'
import { unpacked } from './format/zstd.ts'
import { gatherMissing, idsOfImport, type MemberReader, type Part, type Target } from './part.ts'
import { PARTS } from './parts/index.ts'

const openDocuments = privilege('archives.documents')
const openStructure = privilege('archives.structure')

/** An archive that was sent. */
interface Sent {
  readonly operationId: string
  readonly bytes: number
  /** Ends what reads it. */
  readonly signal?: AbortSignal
}

interface Restoration extends Sent {
  /** Is told what was stored so far. */
  readonly progress: (counts: ArchiveCounts) => Promise<void>
  /** Throws to end the import. It is asked before anything is stored. */
  readonly requireBeingMade: () => Promise<void>
}

/** Reads the beginning of an archive. @throws Problem `archive_invalid` */
export async function readHead(scope: AdminScope, ref: WorkspaceRef, sent: Sent): Promise<Head> {
  const { head, members } = await open(scope, ref, sent)
  await members.return(undefined)
  return head
}

/**
 * Reads and checks all of an archive, and keeps nothing of it.
 * @throws Problem `archive_invalid` with the member that is wrong
 */
export async function verifyArchive(scope: AdminScope, ref: WorkspaceRef, sent: Sent): Promise<void> {
  const { members, announced } = await open(scope, ref, sent)
  const checks = new ArchiveChecks()
  let last = 0
  for await (const member of members) {
    const part = partOf(member)
    const at = PARTS.indexOf(part)
    if (at < last) throw invalid('comes after members that it belongs before.', member.name)
    last = at
    await readerOf(part, member).check(checks, member)
  }
  for (const part of PARTS) part.end?.(checks)
  checks.end()
  requireEqual(announced(), checks.counts)
}

/**
 * Stores what a verified archive has. It may be repeated: what an earlier attempt has stored stays.
 * @returns counts by name, and what has to be set by hand
 * @throws Problem `archive_invalid` with the member that cannot be stored, `quota_exceeded`, `dependency_unavailable`
 */
export async function restoreArchive(
  scope: AdminScope,
  ref: WorkspaceRef,
  sent: Restoration,
): Promise<{ counts: ArchiveCounts; missing: readonly string[] }> {
  const { members, announced } = await open(scope, ref, sent)
  const missing = gatherMissing()
  const into: Target = {
    ref,
    admin: scope,
    service: openDocuments(scope, ref),
    structure: openStructure(scope, ref),
    ...idsOfImport(sent.operationId),
    counts: {},
    requireBeingMade: sent.requireBeingMade,
    missing: missing.tell,
  }
  for await (const member of members) {
    await readerOf(partOf(member), member)
      .read(into, member)
      .catch((error: unknown) => {
        throw quotaAsFault(error, member)
      })
    await sent.progress(into.counts)
  }
  for (const part of PARTS) part.end?.(into)
  requireEqual(announced(), into.counts)
  return { counts: into.counts, missing: missing.list() }
}

/** @throws Problem `archive_invalid` if something else was stored than what the archive says that it has */
function requireEqual(announced: ArchiveCounts, stored: ArchiveCounts): void {
  for (const name of new Set([...Object.keys(announced), ...Object.keys(stored)])) {
    const [should, has] = [announced[name] ?? 0, stored[name] ?? 0]
    if (should !== has) throw invalid(`counts ${should} ${name}; the archive has ${has}.`, MANIFEST)
  }
}

/** Waiting does not help an import whose quota is used up. */
function quotaAsFault(error: unknown, { name }: Member): unknown {
  if (!(error instanceof Problem) || error.code !== 'quota_exceeded') return error
  const { quota, limit } = error.members
  return invalid(
    `has more than the quota ${String(quota)} of the new workspace allows (${String(limit)}).`,
    name,
    error,
  )
}

function partOf({ folder, name }: Member) {
  const part = PARTS.find(({ members }) => Object.hasOwn(members, folder))
  if (part === undefined) throw invalid('has a name that no member of an archive has.', name)
  return part
}

const readerOf = ({ members }: Part, { folder }: Member) => members[folder] as MemberReader

const open = (scope: AdminScope, ref: WorkspaceRef, { operationId, bytes, signal }: Sent) =>
  openArchive(unpacked(until(signal, archiveFile(scope, ref, operationId).read(bytes))))

async function* until(
  signal: AbortSignal | undefined,
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    signal?.throwIfAborted()
    yield chunk
  }
}
