/** The layout of an archive: what its members are called, how it begins and how it ends (docs/reference/archives.md). */

import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'
import { Environment, Name, Slug } from '../../../access/operation-builders.ts'
import { parseJson } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { decodeUtf8 } from '../../../core/text/utf8.ts'

export const FORMAT = 'tenon-archive'
export const FORMAT_VERSION = 1

/** The archive of a tenant has the members of each workspace below a folder of its slug, and this one before them. */
export const WORKSPACES = 'workspaces'
export const WORKSPACE_HEAD = 'workspace.json'

/** The first member: what the archive is, for a reader that has to decide whether it can read the rest. */
export const HEAD = 'tenon.json'
/** The last member: every other one with its size and its digest, which are known when it has been written. */
export const MANIFEST = 'manifest.ndjson'

const Text = Type.String({ minLength: 1, maxLength: 200 })
const Time = Type.String({ format: 'date-time' })

const CLOSED = { additionalProperties: false }
const Url = Type.String({ maxLength: 2_000 })
const Workspace = {
  ...{ workspace_id: Text, name: Name, slug: Slug, bucket: Type.Union([Text, Type.Null()]) },
  environment: Type.Optional(Environment),
}

const headOf = <K extends string, O extends Type.TProperties>(kind: K, origin: O) =>
  Type.Object(
    {
      format: Type.Literal(FORMAT),
      version: Type.Integer({ minimum: 1 }),
      kind: Type.Literal(kind),
      exported_at: Time,
      origin: Type.Object(origin, CLOSED),
    },
    CLOSED,
  )
const HEADS = {
  workspace: headOf('workspace', { url: Url, tenant_id: Text, ...Workspace }),
  tenant: headOf('tenant', { url: Url, tenant_id: Text, name: Name, slug: Slug }),
}
export type ArchiveKind = keyof typeof HEADS
/** @typeParam K what the archive is of */
export type Head<K extends ArchiveKind = ArchiveKind> = Static<(typeof HEADS)[K]>

/** The first member of a workspace in the archive of a tenant. */
export const WorkspaceHead = Type.Object(Workspace, CLOSED)
export type WorkspaceHead = Static<typeof WorkspaceHead>

/** A line of the manifest about a member. */
export const MemberLine = Type.Object(
  {
    name: Text,
    size: Type.Integer({ minimum: 0 }),
    sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  },
  CLOSED,
)
export type MemberLine = Static<typeof MemberLine>

/** Counts of what an archive has, by name. */
export type ArchiveCounts = Record<string, number>

/** The last line of the manifest. */
export const EndLine = Type.Object(
  {
    end: Type.Literal(true),
    members: Type.Integer({ minimum: 0 }),
    counts: Type.Record(Type.String({ pattern: '^' }), Type.Integer({ minimum: 0 })),
  },
  CLOSED,
)
export type EndLine = Static<typeof EndLine>

/** A problem with the archive. @param member the name of the member that it is about */
export const invalid = (detail: string, member?: string, cause?: unknown): Problem =>
  new Problem('archive_invalid', {
    detail: member === undefined ? detail : `The member ${JSON.stringify(member)} ${detail}`,
    ...(member !== undefined && { members: { member } }),
    cause,
  })

/**
 * A reader of one kind of JSON in an archive.
 * @param schema closed, so that an archive brings nothing that is not asked for
 */
export function jsonOf<S extends Type.TSchema>(schema: S): (bytes: Uint8Array, member: string) => Static<S> {
  let compiled: ReturnType<typeof Compile> | undefined
  return (bytes, member) => {
    compiled ??= Compile(schema)
    let value: unknown
    try {
      value = parseJson(decodeUtf8(bytes, 'It'))
    } catch (error) {
      if (error instanceof Problem) throw invalid(`is not valid JSON: ${error.message}`, member)
      throw error
    }
    if (compiled.Check(value)) return value as Static<S>
    const [first] = compiled.Errors(value)
    throw invalid(
      `has a line of another form: ${first?.instancePath || 'it'} ${first?.message ?? 'is wrong'}.`,
      member,
    )
  }
}

const readHead = { workspace: jsonOf(HEADS.workspace), tenant: jsonOf(HEADS.tenant) }
const readKind = jsonOf(
  Type.Object({ format: Type.Unknown(), version: Type.Unknown(), kind: Type.Optional(Type.Unknown()) }),
)

/** @throws Problem `archive_invalid`, also for an archive of another version */
export function parseHead(bytes: Uint8Array): Head {
  const { format, version, kind } = readKind(bytes, HEAD)
  if (format !== FORMAT) throw invalid('is not the beginning of an archive of Tenon.', HEAD)
  if (version !== FORMAT_VERSION)
    throw invalid(
      `has the format version ${JSON.stringify(version).slice(0, 20)}; this installation reads version ${FORMAT_VERSION}.`,
      HEAD,
    )
  return kind === 'tenant' ? readHead.tenant(bytes, HEAD) : readHead.workspace(bytes, HEAD)
}

/** `users/000001.ndjson` */
export const partName = (folder: string, number: number): string => `${folder}/${padded(number)}.ndjson`
/** `objects/000001/000017`: the bytes of the 17th object of the first part. */
export const bytesName = (part: number, number: number): string => `objects/${padded(part)}/${padded(number)}`

const padded = (number: number): string => String(number).padStart(6, '0')
