/** The manifest of a version in an archive: its form, and the same manifest for the workspace that is made of the archive. */

import Type, { type Static } from 'typebox'
import { AnyName } from '../../access/operation-builders.ts'
import { canonical } from '../../core/json.ts'
import type { InputError } from '../../core/problem.ts'
import { FullAnnotations, readsOnly } from '../../core/tool-annotations.ts'
import { VersionNumber } from '../version-aliases.ts'
import { isReserved } from './curation/curation.ts'
import { Groups } from './curation/groups.ts'
import { MCP_LIMITS } from './limits.ts'
import type { Manifest } from './manifest.ts'
import { Prompts, promptFaults, Resources } from './prompts.ts'
import { Choice, Description } from './servers.ts'
import { findHidden, rejectErrors, type Tool } from './tool.ts'
import { TOOL_NAME_PATTERN } from './tool-name.ts'
import { TOOL_PROVIDERS } from './tool-providers/index.ts'

const CLOSED = { additionalProperties: false }
const Text = Type.String({ minLength: 1 })
const ToolName = Type.String({ pattern: TOOL_NAME_PATTERN })
const AnyObject = Type.Record(AnyName, Type.Unknown())
const NONE = Type.Object({}, CLOSED)

/** What a tool may not leave to its caller, by source: nothing else is fixed, so an archive cannot fix anything of another workspace. */
const FIXED = {
  collections: Type.Object({ name: Text }, CLOSED),
  buckets: Type.Object({ bucket: Text }, CLOSED),
  functions: Type.Object({ id: Text, version: VersionNumber }, CLOSED),
  flows: Type.Object({ ws: Text, flow: Text, version: VersionNumber }, CLOSED),
  executions: Type.Object({ ws: Text, flows: Type.Array(Text) }, CLOSED),
  events: NONE,
  results: NONE,
  remote: Type.Object(
    { ws: Text, source: Text, definition: Type.Object({ key: Text, hash: Text, call: AnyObject }, CLOSED) },
    CLOSED,
  ),
}

const bindingTo = <S extends keyof typeof FIXED>(source: S) =>
  Type.Object(
    {
      source: Type.Literal(source),
      operation: Text,
      fixed: FIXED[source],
      arguments: Type.Optional(Type.Union([Type.Literal('fields'), Type.Literal('input')])),
      renamed: Type.Optional(Type.Array(Text)),
      comparable: Type.Optional(Type.Record(AnyName, AnyObject)),
      wait_seconds: Type.Optional(Type.Integer({ minimum: 0, maximum: MCP_LIMITS.executionWaitSeconds })),
    },
    CLOSED,
  )
const Binding = Type.Union([
  bindingTo('collections'),
  bindingTo('buckets'),
  bindingTo('functions'),
  bindingTo('flows'),
  bindingTo('executions'),
  bindingTo('events'),
  bindingTo('results'),
  bindingTo('remote'),
])

const ToolLine = Type.Object(
  {
    candidate: Text,
    name: ToolName,
    title: Type.String(),
    description: Type.String(),
    input_schema: AnyObject,
    output_schema: Type.Optional(AnyObject),
    annotations: FullAnnotations,
    scope: ToolName,
    binding: Binding,
    reads: Type.Boolean(),
    pinned: Type.Optional(Type.Boolean()),
    group: Type.Optional(ToolName),
    preset: Type.Optional(
      Type.Object({ fixed: AnyObject, defaults: AnyObject, hidden: Type.Array(Type.String()) }, CLOSED),
    ),
    limits: Choice.properties.limits,
  },
  CLOSED,
)
type ToolLine = Static<typeof ToolLine>

const { tools: _tools, ...group } = Groups.items.properties

/** A manifest in an archive. */
export const ManifestLine = Type.Object(
  {
    name: Type.String(),
    description: Description,
    tools: Type.Array(ToolLine, { minItems: 1, maxItems: 1_000 }),
    groups: Type.Optional(Type.Array(Type.Object(group, CLOSED), { maxItems: MCP_LIMITS.groupsMax })),
    prompts: Type.Optional(Prompts),
    resources: Type.Optional(Resources),
  },
  CLOSED,
)
export type ManifestLine = Static<typeof ManifestLine>

/** The workspace whose things tools are bound to. */
export interface PlaceOfTools {
  readonly workspaceId: string
  /** Null: it has none. */
  readonly bucket: string | null
  readonly functionIdOf: (id: string) => string
}

/**
 * The manifest whose tools run in another workspace than they were published in.
 * @throws Problem `validation_failed` for names that are taken or reserved, hidden text outside of the tools, which have a review of
 *   their own, and tools that claim to read and do not
 */
export function manifestHere(line: ManifestLine, place: PlaceOfTools): Manifest {
  const { prompts = {}, resources = {} } = line
  const names = line.tools.map(({ name }) => name.toLowerCase())
  rejectErrors([
    findHidden(line.name, '/name'),
    findHidden(line.description, '/description'),
    ...promptFaults(prompts, resources).map(([pointer, detail]) => fault(pointer, detail)),
    ...line.tools.flatMap((tool, index) => [
      names.indexOf(tool.name.toLowerCase()) < index
        ? fault(at(tool), 'has the name of another tool')
        : undefined,
      ...toolFaults(tool),
    ]),
  ])
  return JSON.parse(
    canonical({ ...line, tools: line.tools.map((tool) => toolHere(tool, place)) }),
  ) as Manifest
}

const at = ({ name }: ToolLine) => `/tools/${name}`

const fault = (pointer: string, detail: string): InputError => ({
  ...{ in: 'body', name: 'manifest' },
  ...{ pointer, detail },
})

/** What code and other servers say of their tools is theirs to say, here as where they were published. */
const SPEAK_FOR_THEMSELVES: readonly string[] = ['functions', 'remote']

function toolFaults(tool: ToolLine): (InputError | undefined)[] {
  const { source, operation: name } = tool.binding
  const provider = TOOL_PROVIDERS.find((one) => one.name === source)
  const operation = provider?.operations.find((one) => one.name === name)
  const claims = tool.reads || readsOnly(tool.annotations)
  // One that is unknown here is never called.
  const isFalse = claims && operation?.reads === false && !SPEAK_FOR_THEMSELVES.includes(source)
  const isReservedHere = isReserved(tool.name) && source !== 'executions'
  return [
    isFalse ? fault(at(tool), `claims only to read, and runs ${name}`) : undefined,
    isReservedHere ? fault(at(tool), 'has a reserved name') : undefined,
  ]
}

function toolHere(tool: ToolLine, { workspaceId, bucket, functionIdOf }: PlaceOfTools): Tool {
  const { binding, candidate } = tool
  const bound = (fixed: object) => ({ ...tool, binding: { ...binding, fixed } }) as Tool
  switch (binding.source) {
    case 'functions':
      return bound({ ...binding.fixed, id: functionIdOf(binding.fixed.id) })
    case 'flows':
    case 'executions':
    case 'remote':
      return bound({ ...binding.fixed, ws: workspaceId })
    case 'buckets':
      if (bucket === null) return tool as Tool
      return {
        ...bound({ bucket }),
        candidate: candidate.replace(/^buckets:[^:]+:/, `buckets:${bucket}:`),
      }
    case 'collections':
    case 'events':
    case 'results':
      return tool as Tool
  }
}
