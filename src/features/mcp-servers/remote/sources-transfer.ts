/** Reads and stores all sources of tools of a workspace for archives: what is pinned of them, and the names of their secrets. */

import Type, { type Static } from 'typebox'
import { AnyName, Slug } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { idPattern } from '../../../core/ids.ts'
import { Problem } from '../../../core/problem.ts'
import { FullAnnotations } from '../../../core/tool-annotations.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { allRows } from '../../operation-helpers.ts'
import { ImageSettings } from '../images/image-settings.ts'
import { MCP_LIMITS } from '../limits.ts'
import { type Definition, pinned, Skipped } from './definitions.ts'
import { HeaderChoices } from './source-headers.ts'
import { requireRoom } from './source-store.ts'
import { imagePlace, insertSource, SourceKind, SourceUrl, serverPlace } from './sources.ts'

/** One at a time: its definitions may be large. */
const PAGE = 1
const CLOSED = { additionalProperties: false }
const AnyObject = Type.Record(AnyName, Type.Unknown())

/** A source in an archive. */
export const SourceLine = Type.Object(
  {
    id: Type.String({ pattern: idPattern('src') }),
    name: Slug,
    kind: SourceKind,
    /** Null for an image, whose address is in its settings. */
    url: Type.Union([SourceUrl, Type.Null()]),
    base_url: Type.Union([SourceUrl, Type.Null()]),
    headers: HeaderChoices,
    image: Type.Union([Type.Object(ImageSettings.properties, CLOSED), Type.Null()]),
    definitions: Type.Array(
      Type.Object(
        {
          key: Type.String({ minLength: 1 }),
          name: Type.String({ minLength: 1 }),
          title: Type.String(),
          description: Type.String(),
          input_schema: AnyObject,
          output_schema: Type.Optional(AnyObject),
          annotations: FullAnnotations,
          claimed_annotations: Type.Optional(FullAnnotations),
          call: AnyObject,
          hash: Type.String({ pattern: '^[0-9a-f]{64}$' }),
        },
        CLOSED,
      ),
      { maxItems: MCP_LIMITS.sources.definitionsMax },
    ),
    skipped: Type.Array(Type.Object(Skipped.properties, CLOSED), { maxItems: MCP_LIMITS.sources.notesMax }),
  },
  CLOSED,
)
export type SourceLine = Static<typeof SourceLine>

/** In the order of their ids. @param structure scope with the rights of an admin */
export const allSources = (structure: WorkspaceScope): AsyncGenerator<SourceLine> =>
  allRows(
    PAGE,
    (after) =>
      structure.rows<SourceLine>(sql`
        select id, name, kind, case when kind <> 'image' then url end as url, base_url, headers, image, definitions, skipped
        from mcp_sources where id > ${after} order by id limit ${PAGE}`),
    ({ id }) => id,
  )

/**
 * Stores a source of an archive. It may be repeated. Its server is not asked: what is pinned stays so until somebody refreshes it.
 * @param structure scope of the new workspace with the rights of an admin
 * @throws Problem `validation_failed`, `state_conflict` if the workspace has no room for it
 */
export async function restoreSource(structure: WorkspaceScope, line: SourceLine): Promise<void> {
  const { id, name, kind, definitions, skipped } = line
  const place = placeOf(line)
  const read = pinnedOf(definitions as Definition[], skipped)
  await requireRoom(structure, id, Buffer.byteLength(read.json))
  await structure.batch(
    sql`${insertSource(structure, { id, name, kind, ...place }, read)} on conflict (tenant_id, workspace_id, id) do nothing`,
  )
}

function placeOf({ kind, url, base_url, headers, image }: SourceLine) {
  if ((kind === 'image') !== (image !== null) || (kind === 'image') !== (url === null))
    throw new Problem('validation_failed', {
      detail: 'A source of the kind image has `image`, and any other `url`.',
    })
  if (image === null) return serverPlace({ ...(url !== null && { url }), base_url, headers })
  const { reference, ...settings } = image
  return imagePlace({ ...settings, image: reference })
}

/** @throws Problem `validation_failed` if there are too many */
function pinnedOf(definitions: readonly Definition[], skipped: SourceLine['skipped']) {
  try {
    return pinned(definitions, skipped)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new Problem('validation_failed', { detail: error.message })
  }
}
