/** Imports an archive as a new workspace, or a new tenant: checks all of it first, then stores it where nobody looks yet. */

import { privilege } from '../../access/privileges.ts'
import type { AdminScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantRef, WorkspaceRef } from '../../core/tenant.ts'
import { makeImportedWorkspace } from '../tenants/imported-workspaces.ts'
import { archiveFile } from './archive-files.ts'
import { ArchiveChecks } from './checks.ts'
import {
  type ArchiveCounts,
  type ArchiveKind,
  HEAD,
  type Head,
  invalid,
  jsonOf,
  MANIFEST,
  WORKSPACE_HEAD,
  WorkspaceHead,
} from './format/layout.ts'
import { gather, type Member, type OpenArchive, openArchive } from './format/reader.ts'
import { unpacked } from './format/zstd.ts'
import { ARCHIVE_LIMITS } from './limits.ts'
import {
  counted,
  gatherMissing,
  idsOfImport,
  type MemberReader,
  type Part,
  type Target,
  type TenantPart,
  type TenantTarget,
} from './part.ts'
import { PARTS, TENANT_PARTS } from './parts/index.ts'

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
  readonly requireBeingMade: (ref: TenantRef) => Promise<void>
}

const OTHERWISE: Readonly<Record<ArchiveKind, string>> = {
  workspace: 'Import it into a tenant: `POST /v1/tenants/{id}/imports`.',
  tenant: 'An operator imports it as a tenant: `POST /v1/tenants/imports`.',
}

/** Reads the beginning of an archive. @throws Problem `archive_invalid`, also if it is of another kind */
export async function readHead<K extends ArchiveKind>(
  scope: AdminScope,
  ref: TenantRef,
  sent: Sent,
  kind: K,
): Promise<Head<K>> {
  const { head, members } = await open(scope, ref, sent)
  await members.return(undefined)
  if (head.kind !== kind) throw invalid(`is of a ${head.kind}. ${OTHERWISE[head.kind]}`, HEAD)
  return head as Head<K>
}

/**
 * Reads and checks all of an archive, and keeps nothing of it.
 * @throws Problem `archive_invalid` with the member that is wrong
 */
export async function verifyArchive(scope: AdminScope, ref: TenantRef, sent: Sent): Promise<void> {
  const archive = await open(scope, ref, sent)
  const counts: ArchiveCounts = {}
  await readSections(archive, {
    counts,
    begin: async () => new ArchiveChecks(counts),
    read: (reader, checks, member) => reader.check(checks, member),
    end: (checks) => checks.end(),
  })
}

/**
 * Stores what a verified archive has. It may be repeated: what an earlier attempt has stored stays.
 * @returns counts by name, and what has to be set by hand
 * @throws Problem `archive_invalid` with the member that cannot be stored, `quota_exceeded`, `dependency_unavailable`
 */
export async function restoreArchive(
  scope: AdminScope,
  ref: TenantRef,
  sent: Restoration,
): Promise<{ counts: ArchiveCounts; missing: readonly string[] }> {
  const archive = await open(scope, ref, sent)
  const missing = gatherMissing()
  const counts: ArchiveCounts = {}
  const storing = {
    admin: scope,
    counts,
    missing: missing.tell,
    requireBeingMade: () => sent.requireBeingMade(ref),
  }
  const begin = async (workspace?: WorkspaceHead): Promise<Target | TenantTarget> => {
    const { operationId } = sent
    const { tenantId, workspaceId } = ref
    if (workspaceId !== '-')
      return { ...storing, ...inWorkspace(scope, { tenantId, workspaceId }), ...idsOfImport(operationId) }
    if (workspace === undefined) return { ...storing, tenantId }
    const { slug } = workspace
    await storing.requireBeingMade()
    const made = { tenantId, workspaceId: idsOfImport(operationId).idFor('ws', slug) }
    await makeImportedWorkspace(scope, made, workspace)
    return {
      ...{ ...storing, ...inWorkspace(scope, made), ...idsOfImport(operationId, `/${slug}`) },
      missing: (what) => missing.tell(`workspace ${slug}: ${what}`),
      requireBeingMade: async () => {
        await sent.requireBeingMade(ref)
        await sent.requireBeingMade(made)
      },
    }
  }
  await readSections(archive, {
    ...{ counts, begin },
    read: async (reader, into, member) => {
      await reader.read(into as never, member).catch((error: unknown) => {
        throw quotaAsFault(error, member)
      })
      await sent.progress(counts)
    },
    end: async (into, parts) => {
      for (const part of parts) await part.finish?.(into as never)
    },
  })
  return { counts, missing: missing.list() }
}

const inWorkspace = (scope: AdminScope, ref: WorkspaceRef) => ({
  ref,
  service: openDocuments(scope, ref),
  structure: openStructure(scope, ref),
})

/** What is done with the members of the tenant, and of each workspace. */
interface Work<R> {
  /** What was read so far, by name. */
  readonly counts: ArchiveCounts
  /** @param workspace of the archive of a tenant; undefined for the tenant itself, and in the archive of a workspace */
  readonly begin: (workspace?: WorkspaceHead) => Promise<R>
  readonly read: (reader: MemberReader<never>, reading: R, member: Member) => Promise<void>
  readonly end?: (reading: R, parts: readonly (Part | TenantPart)[]) => Promise<void> | void
}

interface Section<R> {
  readonly workspace: string | undefined
  readonly parts: readonly (Part | TenantPart)[]
  readonly reading: R
  /** The part of the last member. */
  at: number
}

/** @throws Problem `archive_invalid` also for members in another order, and if the end of the archive counts otherwise */
async function readSections<R>({ head, members, announced }: OpenArchive, work: Work<R>): Promise<void> {
  const { counts, begin, read, end } = work
  const isTenant = head.kind === 'tenant'
  const close = async ({ parts, reading }: Section<R>) => {
    for (const part of parts) part.end?.(reading as never)
    await end?.(reading, parts)
  }
  const parts = isTenant ? TENANT_PARTS : PARTS
  let section: Section<R> = { workspace: undefined, parts, reading: await begin(), at: 0 }
  for await (const member of members) {
    if (member.workspace !== section.workspace) {
      if (!isTenant)
        throw invalid('is of a workspace of a tenant; the archive is of a workspace.', member.name)
      await close(section)
      const workspace = await readWorkspaceHead(member)
      counted(counts, 'workspaces')
      section = { workspace: workspace.slug, parts: PARTS, reading: await begin(workspace), at: 0 }
    } else await read(readerFor(section, member), section.reading, member)
  }
  await close(section)
  requireEqual(announced(), counts)
}

const parseWorkspaceHead = jsonOf(WorkspaceHead)

/** @throws Problem `archive_invalid` if the first member of a workspace is another one */
async function readWorkspaceHead(member: Member): Promise<WorkspaceHead> {
  if (member.path !== WORKSPACE_HEAD)
    throw invalid(`comes before the ${WORKSPACE_HEAD} of its workspace.`, member.name)
  const workspace = parseWorkspaceHead(await gather(member, ARCHIVE_LIMITS.headBytesMax), member.name)
  if (workspace.slug === member.workspace) return workspace
  throw invalid('has another slug than its folder.', member.name)
}

function readerFor(section: Section<unknown>, { folder, name }: Member): MemberReader<never> {
  const at = section.parts.findIndex(({ members }) => Object.hasOwn(members, folder))
  const reader = section.parts[at]?.members[folder]
  if (reader === undefined) throw invalid('has a name that no member has here.', name)
  if (at < section.at) throw invalid('comes after members that it belongs before.', name)
  section.at = at
  return reader
}

/** @throws Problem `archive_invalid` if something else was read than what the archive says that it has */
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

const open = (scope: AdminScope, ref: TenantRef, { operationId, bytes, signal }: Sent) =>
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
