/** Defines the parts of an archive. Each has one noun, such as users: it is written from a snapshot, and stored in a new workspace. */

import { createHash } from 'node:crypto'
import type { WorkspaceSnapshot } from '../../access/privileges.ts'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { type IdPrefix, seededIds, timeOf, typeId, uuidOf } from '../../core/ids.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantId, WorkspaceRef } from '../../core/tenant.ts'
import { violated } from '../../infra/postgres/errors.ts'
import type { ArchiveChecks } from './checks.ts'
import { type ArchiveCounts, invalid } from './format/layout.ts'
import { type Member, readLines } from './format/reader.ts'
import type { ArchiveWriter } from './format/writer.ts'
import { ARCHIVE_LIMITS } from './limits.ts'

interface Telling {
  /** Tells what has to be set by hand where the archive is imported. */
  readonly missing: (what: string) => void
}

export interface Source extends WorkspaceSnapshot, Telling {}

/** The tenant itself, in the archive of one. */
interface TenantSource extends Telling {
  readonly tenant: AdminScope
}

/** What each part is stored in. */
interface Storing extends Telling {
  /** The structure of the tenant. */
  readonly admin: AdminScope
  /** Throws once it is not being made any more: an attempt that was given up stores nothing then. */
  readonly requireBeingMade: () => Promise<void>
  /** What was stored so far, by name. */
  readonly counts: ArchiveCounts
}

/** A new tenant. */
export interface TenantTarget extends Storing {
  readonly tenantId: TenantId
}

/** A new workspace. */
export interface Target extends Storing {
  readonly ref: WorkspaceRef
  /** The new workspace, with the rights of a service key. */
  readonly service: WorkspaceScope
  /** The new workspace, with the rights of its admin. */
  readonly structure: WorkspaceScope
  /** The id for one of an archive that is taken in this installation: the same at every attempt. */
  readonly newIdOf: (id: string) => string
  /** A new id by a text of the archive: the same at every attempt. */
  readonly idFor: <P extends IdPrefix>(prefix: P, text: string) => `${P}_${string}`
}

/** In an archive, the members of a part come before those of the parts behind it in the list (parts/index.ts). */
export interface Part<From = Source, Into extends Storing = Target> {
  /** How its members are read, by the first step of their names. */
  readonly members: Readonly<Record<string, MemberReader<Into>>>
  write(writer: ArchiveWriter, from: From): AsyncGenerator<Uint8Array>
  /** Checks, behind the last member, that nothing is missing. @param reading what its members were read for @throws Problem `archive_invalid` */
  end?(reading: ArchiveChecks | Into): void
  /** Stores, behind the last member, what needs all others. It is repeated, with all members, if the worker dies. */
  finish?(into: Into): Promise<void>
}

export type TenantPart = Part<TenantSource, TenantTarget>

export interface MemberReader<Into extends Storing = Target> {
  /** Checks one member, and stores nothing. @throws Problem `archive_invalid` */
  check(checks: ArchiveChecks, member: Member): Promise<void>
  /** Stores one member. It is repeated, with all members before it, if the worker dies. */
  read(into: Into, member: Member): Promise<void>
}

/** Reads members line by line. */
export const linesOf = <L, Into extends Storing = Target>(
  parse: (line: Uint8Array, member: string) => L,
  {
    count,
    check,
    store,
  }: {
    /** The name of what is counted; nothing is, without it. */
    readonly count?: string
    readonly check?: (checks: ArchiveChecks, line: L, member: Member) => void
    readonly store: (into: Into, line: L) => unknown
  },
): MemberReader<Into> => {
  const each = async ({ counts }: Pick<Storing, 'counts'>, member: Member, work: (line: L) => unknown) => {
    for await (const bytes of readLines(member)) {
      await work(parse(bytes, member.name))
      if (count !== undefined) counted(counts, count)
    }
  }
  return {
    check: (checks, member) => each(checks, member, (line) => check?.(checks, line, member)),
    read: (into, member) =>
      each(into, member, (line) => inMember(into, member, async () => store(into, line))),
  }
}

/** The ids that one import makes. @param importId of its operation @param folder of the workspace, in the archive of a tenant */
export function idsOfImport(importId: string, folder = ''): Pick<Target, 'newIdOf' | 'idFor'> {
  const make = (prefix: IdPrefix, text: string, atMs: number) => {
    const random = () => createHash('sha256').update(`${importId}${folder}/${text}`).digest().subarray(0, 16)
    return typeId(prefix, seededIds(atMs, random).uuid())
  }
  return {
    newIdOf: (id) => make((id.split('_')[0] ?? '') as IdPrefix, id, timeOf(uuidOf(id))),
    idFor: <P extends IdPrefix>(prefix: P, text: string) =>
      make(prefix, text, timeOf(uuidOf(importId))) as `${P}_${string}`,
  }
}

/**
 * Stores something of a member, and names the member in a problem of its content.
 * @throws Problem `archive_invalid` for what is refused now and would be again, though what it is stored in is still being made; others as
 *   they are
 */
export async function inMember<T>(
  { requireBeingMade }: Pick<Storing, 'requireBeingMade'>,
  { name }: Member,
  work: () => Promise<T>,
): Promise<T> {
  await requireBeingMade()
  try {
    return await work()
  } catch (error) {
    const fault = faultOf(error)
    if (fault === undefined) throw error
    // A workspace that was deleted meanwhile refuses the work too, which is no fault of the archive.
    await requireBeingMade()
    throw invalid(fault, name, error)
  }
}

/** Why something of a member is refused, and would be again; undefined for what may succeed later, and for what names the member already. */
function faultOf(error: unknown): string | undefined {
  if (violated(error) !== undefined) return 'names something that is there already, or that is missing.'
  if (!(error instanceof Problem) || !error.isFinal || error.code === 'archive_invalid') return undefined
  return `cannot be stored: ${error.message}`
}

/** Gathers what has to be set by hand: some of it by name, and the rest by number, since an archive may name any number of things. */
export function gatherMissing(): { tell: (what: string) => void; list: () => readonly string[] } {
  const told: string[] = []
  let more = 0
  return {
    tell: (what) => {
      if (told.length < ARCHIVE_LIMITS.missingMax) told.push(what)
      else more += 1
    },
    list: () => (more === 0 ? told : [...told, `${more} more things, which are not listed`]),
  }
}

export function counted(counts: ArchiveCounts, name: string, by = 1): void {
  counts[name] = (counts[name] ?? 0) + by
}
