/** Rules on what clients refuse: schemas that nothing shown can stand for, and names that become too long. */

import { MARK } from '../calls/result-form.ts'
import { MCP_LIMITS } from '../limits.ts'
import type { JsonSchema, Tool } from '../tool.ts'
import type { Severity } from './lint-texts.ts'

interface PortabilityFault {
  readonly pointer: string
  readonly rule: string
  readonly severity: Severity
  readonly detail: string
}

/**
 * Tools whose schema was written in this workspace: its author can change it. Schemas of other systems are shown without the
 * alternatives, and accept more than theirs.
 */
const AUTHORED: ReadonlySet<string> = new Set(['functions', 'flows'])

/** @param slug of the server, which clients put in front of the names of its tools */
export function portabilityFaults(tool: Tool, slug: string | undefined): PortabilityFault[] {
  const { name, input_schema, output_schema, binding } = tool
  const fault = (pointer: string, rule: string, detail: string | undefined, severity: Severity = 'error') =>
    detail === undefined ? [] : [{ pointer, rule, severity, detail }]
  return [
    ...fault(
      '/input_schema',
      'schema-no-object',
      noObject(input_schema, 'Claude Code drops all tools of a server with such a schema'),
    ),
    ...fault(
      '/input_schema',
      'schema-alternatives',
      AUTHORED.has(binding.source) ? alternatives(input_schema) : undefined,
    ),
    ...fault(
      '/output_schema',
      'schema-no-object',
      output_schema &&
        noObject(output_schema, 'the SDKs of MCP refuse all tools of a server with such a schema'),
    ),
    ...fault(
      '/output_schema',
      'schema-reserved-member',
      output_schema && AUTHORED.has(binding.source) ? reservedMember(output_schema) : undefined,
    ),
    ...fault('/name', 'long-name', slug === undefined ? undefined : longName(slug, name), 'advice'),
  ]
}

const noObject = ({ type }: JsonSchema, consequence: string) =>
  type === undefined || type === 'object' || (Array.isArray(type) && type.includes('object'))
    ? undefined
    : `has the type ${JSON.stringify(type)?.slice(0, 100)} at the top, where it is \`object\`: ${consequence}`

function alternatives(schema: JsonSchema): string | undefined {
  const found = ['anyOf', 'oneOf'].find((keyword) => Object.hasOwn(schema, keyword))
  return found === undefined
    ? undefined
    : `has ${found} at the top: Cursor refuses the tool, and Claude Code drops all tools of the server. Put the alternatives into a property, or list all properties and require those that each alternative requires`
}

const reservedMember = ({ properties }: JsonSchema) =>
  Object.hasOwn(Object(properties), MARK)
    ? `declares ${MARK}, which is the member that marks results as data: give it another name`
    : undefined

function longName(slug: string, name: string): string | undefined {
  const chars = `mcp__${slug}__${name}`.length
  const max = MCP_LIMITS.toolNameCharsMax
  return chars <= max
    ? undefined
    : `has ${chars} characters as mcp__${slug}__${name}, which is how Claude Code and others name it, of at most ${max}: give it a shorter \`name\``
}
