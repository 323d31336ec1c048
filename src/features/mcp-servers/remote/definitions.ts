/** The tools of a source as the source defines them: their pinned form, and the comparison with what was read later. */

import Type, { type Static } from 'typebox'
import { canonical } from '../../../core/json.ts'
import type { Annotations } from '../../../core/tool-annotations.ts'
import { MCP_LIMITS } from '../limits.ts'
import { digest, type JsonSchema } from '../tool-name.ts'

/** A tool that a source offers: most of a candidate ({@link Candidate} in tool.ts). */
export interface Definition {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly input_schema: JsonSchema
  readonly output_schema?: JsonSchema
  readonly annotations: Annotations
  /** Hints that the upstream server declares for its tool, see {@link Candidate}. */
  readonly claimed_annotations?: Annotations
  /** Identifies it within the source: the `operationId` of OpenAPI, the name of an MCP tool. */
  readonly key: string
  /** Data of the kind of the source: how the tool is called, and what a later definition is compared with. */
  readonly call: Readonly<Record<string, unknown>>
  /** SHA-256 of what it was made of, hex. Default: of the definition itself. */
  readonly hash?: string
}

/** The definition that a tool of a published version was made of. */
export interface FrozenDefinition extends Pick<Definition, 'key' | 'call'> {
  /** SHA-256 of the canonical definition, hex. */
  readonly hash: string
}

/** A part of a source that is no tool. */
export const Skipped = Type.Object({ part: Type.String(), reason: Type.String() })
export type Skipped = Static<typeof Skipped>

interface KeyHash {
  readonly key: string
  readonly hash: string
}

/** Definitions as they are stored. */
export interface PinnedDefinitions {
  /** JSON of the definitions, ordered as in the source. */
  readonly json: string
  readonly hashes: readonly KeyHash[]
  /** Of all hashes, whatever their order. */
  readonly hash: string
  readonly skipped: readonly Skipped[]
}

/**
 * Prepares definitions for the table. The time grows with their size, so that large ones are pinned in a worker thread.
 * @throws RangeError if there are more than {@link MCP_LIMITS.sources.definitionsMax}, or they have more bytes than allowed together
 */
export function pinned(
  definitions: readonly Definition[],
  skipped: readonly Skipped[] = [],
): PinnedDefinitions {
  const { definitionsMax: most, definitionsBytesMax: bytesMax } = MCP_LIMITS.sources
  if (definitions.length > most) throw new RangeError(`The source has more than ${most} tools.`)
  const hashes = definitions.map((one) => ({ key: one.key, hash: one.hash ?? digest(canonical(one)) }))
  const json = JSON.stringify(definitions.map((one, index) => ({ ...one, hash: hashes[index]?.hash })))
  if (Buffer.byteLength(json) > bytesMax)
    throw new RangeError(`The definitions of tools of the source have more than ${bytesMax} bytes together.`)
  const lines = hashes.map(({ key, hash }) => `${hash} ${key}`).sort()
  return {
    json,
    hashes,
    hash: digest(lines.join('\n')),
    skipped: skipped.slice(0, MCP_LIMITS.sources.notesMax),
  }
}

const Names = Type.Array(Type.String(), {
  description: `Names of definitions, at most ${MCP_LIMITS.sources.notesMax}.`,
})
/** How a source differs from its pinned definitions. */
export const Drift = Type.Object({
  hash: Type.String({
    description: 'Hash of the definitions that were read, to be passed as `accept` of a refresh.',
  }),
  added: Names,
  removed: Names,
  changed: Names,
  changed_fields: Type.Record(Type.String(), Type.Array(Type.String()), {
    description: 'Members of each changed definition that differ.',
  }),
})
export type Drift = Static<typeof Drift>

/** @returns undefined if all definitions are the pinned ones */
export function driftOf(
  before: Pick<PinnedDefinitions, 'hashes' | 'hash'>,
  { hashes, hash }: Pick<PinnedDefinitions, 'hashes' | 'hash'>,
): Omit<Drift, 'changed_fields'> | undefined {
  if (before.hash === hash) return undefined
  const old = new Map(before.hashes.map((one) => [one.key, one.hash]))
  const now = new Map(hashes.map((one) => [one.key, one.hash]))
  const listed = (keys: Iterable<string>, isNamed: (key: string) => boolean) =>
    [...keys].filter(isNamed).slice(0, MCP_LIMITS.sources.notesMax)
  return {
    hash,
    added: listed(now.keys(), (key) => !old.has(key)),
    removed: listed(old.keys(), (key) => !now.has(key)),
    changed: listed(now.keys(), (key) => old.has(key) && old.get(key) !== now.get(key)),
  }
}
