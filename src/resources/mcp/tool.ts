/** What a tool is: a candidate that a source offers, and the frozen form of it that a version holds. */

import type { AnyOperation } from '../../core/operation.ts'
import type { Annotations } from '../../core/tool-access.ts'

export type JsonSchema = Readonly<Record<string, unknown>>

/** Which operation a tool runs, and the part of its input that the tool's caller does not choose. */
interface Binding {
  readonly source: string
  readonly operation: string
  readonly fixed: Readonly<Record<string, unknown>>
}

/** Something that could be a tool. `candidate` names it in the curation: `<source>:<thing>:<verb>`. */
export interface Candidate {
  readonly candidate: string
  readonly name: string
  readonly title: string
  readonly description: string
  readonly input_schema: JsonSchema
  readonly output_schema?: JsonSchema
  readonly annotations: Annotations
  /** Last part of the scope; the same as the name where the curator says nothing. */
  readonly scope: string
  readonly risk: 'read' | 'write'
  readonly binding: Binding
}

/** A tool of a published version. */
export interface Tool extends Omit<Candidate, 'risk'> {
  readonly reads: boolean
}

/** The schema of a tool's arguments: the operation's input without what is fixed or in the form of URLs, closed. */
export function argumentsOf(operation: AnyOperation, fixed: Readonly<Record<string, unknown>>): JsonSchema {
  const { headers, rest } = operation.http
  const chosen = ([name]: [string, unknown]) =>
    !Object.hasOwn(fixed, name) && headers?.[name] !== 'prefer' && name !== rest
  const properties = Object.fromEntries(Object.entries(operation.input.properties).filter(chosen))
  const required = (operation.input.required ?? []).filter((name) => Object.hasOwn(properties, name))
  const schema = { type: 'object', properties, required, additionalProperties: false }
  return JSON.parse(JSON.stringify(schema)) as JsonSchema
}

/** Letters that every client takes, never longer than they take: what is cut off is kept apart by a digest. */
export function toolName(text: string, max: number, digest: (text: string) => string): string {
  const name = text.replaceAll(/[^A-Za-z0-9_.-]/g, '_')
  return name.length <= max ? name : `${name.slice(0, max - 9)}_${digest(text).slice(0, 8)}`
}
