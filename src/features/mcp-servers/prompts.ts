/** Prompts and static resources of a server: texts that an admin writes, with arguments that a client fills in. */

import Type, { type Static } from 'typebox'
import { AnyName } from '../../access/operation-builders.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { percentDecoded } from '../../infra/http-client/parameter-styles.ts'
import { Content } from './calls/content.ts'
import { MCP_LIMITS } from './limits.ts'
import { findHidden } from './tool.ts'

const Description = Type.String({ minLength: 1, maxLength: MCP_LIMITS.descriptionCharsMax })
const Title = Type.String({ minLength: 1, maxLength: CORE_LIMITS.nameCharsMax })

const Prompt = Type.Object(
  {
    title: Type.Optional(Title),
    description: Type.Optional(Description),
    arguments: Type.Optional(
      Type.Array(
        Type.Object(
          {
            name: Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,62}$' }),
            description: Type.Optional(Description),
            required: Type.Optional(Type.Boolean()),
            values: Type.Optional(
              Type.Array(Type.String({ maxLength: 200 }), {
                maxItems: 100,
                description: 'Values that clients offer as completions; other values are accepted, too.',
              }),
            ),
          },
          { additionalProperties: false },
        ),
        { maxItems: 20 },
      ),
    ),
    messages: Type.Array(
      Type.Object(
        { role: Type.Union([Type.Literal('user'), Type.Literal('assistant')]), content: Content },
        { additionalProperties: false },
      ),
      {
        minItems: 1,
        maxItems: 20,
        description: 'Messages of the prompt; `{{name}}` in a text stands for an argument.',
      },
    ),
  },
  { additionalProperties: false },
)
export type Prompt = Static<typeof Prompt>
export const Prompts = Type.Record(AnyName, Prompt, { maxProperties: MCP_LIMITS.promptsMax })
export type Prompts = Static<typeof Prompts>

const StaticResource = Type.Object(
  {
    uri: Type.String({
      pattern: '^[a-z][a-z0-9+.-]*:[^\\s]{1,500}$',
      description:
        'URI of the resource; with names in braces, a template: `guide://products/{id}`. `tenon:` and `tenon-…:` are reserved.',
    }),
    title: Type.Optional(Title),
    description: Type.Optional(Description),
    mime_type: Type.Optional(Type.String({ pattern: '^[a-z]+/[A-Za-z0-9.+-]+$', maxLength: 100 })),
    text: Type.Optional(Type.String({ maxLength: MCP_LIMITS.resourceCharsMax })),
    blob: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9+/]*={0,2}$',
        maxLength: MCP_LIMITS.resourceCharsMax,
        description: 'Content in base64, instead of `text`.',
      }),
    ),
  },
  { additionalProperties: false },
)
type StaticResource = Static<typeof StaticResource>
export const Resources = Type.Record(AnyName, StaticResource, { maxProperties: MCP_LIMITS.resourcesMax })
export type Resources = Static<typeof Resources>

const PLACEHOLDER = /\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}/g
const PARAMETER = /\{([A-Za-z_][A-Za-z0-9_]*)\}/g

/** The errors of prompts and resources: pointer and detail. */
export function promptFaults(
  prompts: Prompts,
  resources: Resources,
): (readonly [pointer: string, detail: string])[] {
  return [
    ...Object.entries(prompts).flatMap(([name, prompt]) => [
      ...hidden(`/prompts/${name}`, JSON.parse(JSON.stringify(prompt))),
      ...undeclared(prompt).map(
        (used) => [`/prompts/${name}/messages`, `{{${used}}} is no argument of it`] as const,
      ),
    ]),
    ...Object.entries(resources).flatMap(([name, resource]) => [
      ...hidden(`/resources/${name}`, { ...resource, blob: '' }),
      ...(/^tenon[:-]/.test(resource.uri)
        ? [[`/resources/${name}/uri`, 'is reserved for the platform'] as const]
        : []),
      ...((resource.text === undefined) === (resource.blob === undefined)
        ? [[`/resources/${name}`, 'takes `text` or `blob`'] as const]
        : []),
    ]),
  ]
}

const undeclared = (prompt: Prompt) =>
  namesIn(JSON.stringify(prompt.messages), PLACEHOLDER).filter(
    (name) => argumentOf(prompt, name) === undefined,
  )

const argumentOf = (prompt: Prompt | undefined, name: string) =>
  prompt?.arguments?.find((argument) => argument.name === name)

const namesIn = (text: string, pattern: RegExp) => [
  ...new Set([...text.matchAll(pattern)].map(([, name = '']) => name)),
]

/** Hidden characters in any text of a value. */
function hidden(pointer: string, value: unknown): (readonly [string, string])[] {
  if (typeof value === 'string') {
    const found = findHidden(value, pointer)
    return found === undefined ? [] : [[pointer, found.detail]]
  }
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => hidden(`${pointer}/${name}`, member))
}

/** A prompt in `prompts/list`. */
export const shownPrompt = (name: string, { title, description, arguments: declared = [] }: Prompt) => ({
  name,
  ...(title !== undefined && { title }),
  ...(description !== undefined && { description }),
  arguments: declared.map(({ name: argument, description: text, required = false }) => ({
    name: argument,
    ...(text !== undefined && { description: text }),
    required,
  })),
})

/** @throws Problem `validation_failed` for a missing or unknown argument */
export function fillPrompt(prompt: Prompt, args: Readonly<Record<string, string>>) {
  const declared = prompt.arguments ?? []
  const missing = declared.find(({ name, required }) => required === true && !Object.hasOwn(args, name))
  if (missing !== undefined)
    throw new Problem('validation_failed', { detail: `The argument ${missing.name} is required.` })
  const unknown = Object.keys(args).find((name) => argumentOf(prompt, name) === undefined)
  if (unknown !== undefined) {
    const names = declared.map(({ name }) => name).join(', ') || 'none'
    const detail = `The prompt has no argument ${unknown.slice(0, 100)}; it has ${names}.`
    throw new Problem('validation_failed', { detail })
  }
  const { description, messages } = prompt
  return {
    ...(description !== undefined && { description }),
    messages: messages.map(({ role, content }) => ({ role, content: filled(content, args) as Content })),
  }
}

/** A value whose texts have the arguments in place of their placeholders. Arguments are not searched for placeholders. */
function filled(value: unknown, args: Readonly<Record<string, string>>): unknown {
  if (typeof value === 'string')
    return value.replaceAll(PLACEHOLDER, (_all, name: string) =>
      Object.hasOwn(args, name) ? (args[name] ?? '') : '',
    )
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, filled(member, args)]))
}

/** Completions of an argument of a prompt: its values that begin with a text, in their order. */
export function completionsOf(prompt: Prompt | undefined, argument: string, begin: string): string[] {
  const { values = [] } = argumentOf(prompt, argument) ?? {}
  return values.filter((value) => value.toLowerCase().startsWith(begin.toLowerCase()))
}

export const isTemplate = ({ uri }: StaticResource) => namesIn(uri, PARAMETER).length > 0

/** A resource or template in `resources/list` and `resources/templates/list`. */
export const shownResource = (name: string, resource: StaticResource) => {
  const { title = name, description = title } = resource
  return { name, title, description, mimeType: mimeTypeOf(resource) }
}

const mimeTypeOf = ({ mime_type, text }: StaticResource) =>
  mime_type ?? (text === undefined ? 'application/octet-stream' : 'text/plain')

/** The contents of the resource that a URI names, or that fits its template; a parameter ends at `/`, `?` and `#`. */
export function readResource(resources: Resources, uri: string) {
  for (const resource of Object.values(resources)) {
    const { text, blob = '' } = resource
    const values = parametersOf(resource.uri, uri)
    if (values === undefined) continue
    const mimeType = mimeTypeOf(resource)
    return [{ uri, mimeType, ...(text === undefined ? { blob } : { text: String(filled(text, values)) }) }]
  }
  return undefined
}

/** The parameters of a URI that fits a template; undefined if it does not fit. Takes linear time. */
function parametersOf(template: string, uri: string): Record<string, string> | undefined {
  const names = [...template.matchAll(PARAMETER)].map(([, name = '']) => name)
  const literals = template.split(/\{[A-Za-z_][A-Za-z0-9_]*\}/)
  const values: Record<string, string> = {}
  let at = 0
  for (const [index, literal] of literals.entries()) {
    if (!uri.startsWith(literal, at)) return undefined
    at += literal.length
    const name = names[index]
    if (name === undefined) break
    const [value = ''] = /^[^/?#]*/.exec(uri.slice(at, at + 1_000)) ?? []
    const next = literals[index + 1] ?? ''
    const end = next === '' ? value.length : value.indexOf(next[0] ?? '')
    const length = end < 0 ? value.length : end
    if (length === 0) return undefined
    values[name] = percentDecoded(value.slice(0, length))
    at += length
  }
  return at === uri.length ? values : undefined
}
