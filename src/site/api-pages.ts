/** Pages of the API reference, made of the OpenAPI document: one for each group, and one for each operation. */

import { exampleOf, fieldLine, fieldList, resolve, type Schema, type Schemas } from './api-schemas.ts'
import type { SitePage } from './sources.ts'

interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required?: boolean
  readonly description?: string
  readonly schema: Schema
  readonly example?: unknown
}
interface Media {
  readonly schema?: Schema
  /** Of a stream: its events by name. */
  readonly 'x-events'?: Readonly<Record<string, { readonly data?: Schema }>>
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, { readonly value?: unknown }>>
}
type Content = Readonly<Record<string, Media>>
interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly tags: readonly string[]
  readonly parameters: readonly Parameter[]
  readonly requestBody?: { readonly content: Content; readonly required?: boolean }
  readonly responses: Readonly<Record<string, { readonly description?: string; readonly content?: Content }>>
  readonly security: readonly Readonly<Record<string, unknown>>[]
  /** The method of the client, and the field of its input that is the whole body. */
  readonly 'x-client': { readonly group: string; readonly method: string; readonly body?: string }
  readonly 'x-roles'?: readonly string[]
  readonly 'x-scope'?: string
  readonly 'x-stability'?: string
}
export interface ApiDocument {
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas?: Schemas }
}
interface Entry extends Operation {
  readonly method: string
  readonly route: string
}

const JSON_TYPE = 'application/json'
const slugOf = (name: string) => name.toLowerCase().replaceAll(' ', '-')
/** A dot would make the rest of the name an extension. */
const fileOf = ({ operationId }: Operation) => operationId.replaceAll(/[._]/g, '-')

export function apiPages(document: ApiDocument): SitePage[] {
  const entries = Object.entries(document.paths).flatMap(([route, methods]) =>
    Object.entries(methods).map(
      ([method, operation]): Entry => ({ ...operation, method: method.toUpperCase(), route }),
    ),
  )
  const groups = document.tags.map((tag) => ({
    ...tag,
    entries: entries.filter(({ tags }) => tags.includes(tag.name)),
  }))
  return [
    indexPage(groups),
    ...groups.map(groupPage),
    ...entries.map((entry) => operationPage(entry, document.components.schemas ?? {})),
  ]
}

interface ApiGroup {
  readonly name: string
  readonly description: string
  readonly entries: readonly Entry[]
}

/** The API groups with their pages, for the navigation. */
export const apiGroups = ({ tags }: ApiDocument): { title: string; path: string }[] =>
  tags.map(({ name }) => ({ title: name, path: `api/${slugOf(name)}` }))

const INDEX_TEXT = `Requests and responses are JSON over HTTP. Send the key of a workspace in the header \`apikey\`, or an access token as \`Authorization: Bearer …\`;
each operation says which roles may call it ([API keys](../keys.md), [roles](../reference/roles.md)). Errors are
[problem documents](../reference/problems.md) with a stable \`code\`. Lists have [pages](../queries.md), and a POST with an \`idempotency-key\` is safe to
repeat. In the examples, \`tenon\` is the [typed client](../client.md). The same as one document: [OpenAPI 3.1](../reference/openapi.json).`

function indexPage(groups: readonly ApiGroup[]): SitePage {
  const rows = groups.map(
    ({ name, description, entries }) =>
      `| [${name}](${slugOf(name)}.md) | ${description} | ${entries.length} |`,
  )
  const table = `| group | about | operations |\n|---|---|---|\n${rows.join('\n')}\n`
  return {
    path: 'api/index',
    title: 'API reference',
    description: 'Every operation with its fields, an example, and code for curl and TypeScript.',
    text: `# API reference\n\n${INDEX_TEXT}\n\n${table}`,
  }
}

/** Operations of one noun stand together: the part of the id before the last dot. */
function groupPage({ name, description, entries }: ApiGroup): SitePage {
  const nouns = Map.groupBy(entries, ({ operationId }) => operationId.replace(/\.[^.]*$/, ''))
  const sections = [...nouns].map(([noun, those]) => {
    const lines = those.map(
      (one) => `- [${one.summary}](${fileOf(one)}.md)<br>\`${one.method} ${one.route}\``,
    )
    return `## ${headingOf(noun)}\n\n${lines.join('\n')}\n`
  })
  const path = `api/${slugOf(name)}`
  return {
    path,
    title: `API: ${name}`,
    description,
    text: `# API: ${name}\n\n${description}\n\n${sections.join('\n')}`,
  }
}

const headingOf = (noun: string) => {
  const words = noun.replaceAll(/[_.]/g, ' ').replace(/^mcp\b/, 'MCP')
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}`
}

function operationPage(entry: Entry, schemas: Schemas): SitePage {
  const { summary, method, route } = entry
  const [group = ''] = entry.tags
  const parts = [
    `# ${summary}`,
    `\`${method} ${route}\` · [${group}](${slugOf(group)}.md)`,
    callersOf(entry),
    `## Example\n\n${exampleText(entry, schemas)}`,
    ...parameterParts(entry, schemas),
    ...bodyPart(entry, schemas),
    ...responseParts(entry, schemas),
  ]
  const description = `${method} ${route}: ${summary}.`
  return {
    path: `api/${fileOf(entry)}`,
    within: `api/${slugOf(group)}`,
    title: summary,
    description,
    text: `${parts.join('\n\n')}\n`,
  }
}

function callersOf(entry: Entry): string {
  const roles = (entry['x-roles'] ?? []).map((role) => `\`${role}\``).join(', ')
  const scope = entry['x-scope'] === undefined ? '' : ` Scope: \`${entry['x-scope']}\`.`
  const stability =
    entry['x-stability'] === 'stable' ? '' : ` Stability: \`${entry['x-stability']}\`; it may change.`
  return roles === '' ? `It needs no credential.${stability}` : `Roles: ${roles}.${scope}${stability}`
}

const PLACES = [
  ['path', 'Path'],
  ['query', 'Query'],
  ['header', 'Headers'],
] as const

function parameterParts({ parameters }: Entry, schemas: Schemas): string[] {
  return PLACES.flatMap(([place, title]) => {
    const those = parameters.filter((one) => one.in === place)
    if (those.length === 0) return []
    const lines = those.map(({ name, required = false, description, schema }) =>
      fieldLine(name, description === undefined ? schema : { ...schema, description }, required, schemas),
    )
    return [`## ${title}\n\n${lines.join('\n')}`]
  })
}

function bodyPart({ requestBody }: Entry, schemas: Schemas): string[] {
  if (requestBody === undefined) return []
  return [`## Body\n\n${contentText(requestBody.content, schemas)}`]
}

function responseParts({ responses }: Entry, schemas: Schemas): string[] {
  const statuses = Object.entries(responses).filter(([status]) => status !== 'default')
  const parts = statuses.map(([status, { description = '', content = {} }]) => {
    const body = contentText(content, schemas)
    return `### ${status}\n\n${description}${body === '' ? '' : `\n\n${body}`}`
  })
  const errors = 'Errors are [problem documents](../reference/problems.md).'
  return [`## Responses\n\n${[...parts, errors].join('\n\n')}`]
}

function contentText(content: Content, schemas: Schemas): string {
  const texts = Object.entries(content).map(([type, { schema, 'x-events': events }]) => {
    if (events !== undefined) return `\`${type}\`, with these events:\n\n${eventList(events, schemas)}`
    const fields = schema === undefined ? [] : fieldList(schema, schemas)
    const text = schema === undefined ? undefined : resolve(schema, schemas).description
    const head = `\`${type}\`${fields.length > 0 ? ', with these fields:' : '.'}${text === undefined ? '' : ` ${text}`}`
    return fields.length > 0 ? `${head}\n\n${fields.join('\n')}` : head
  })
  return texts.join('\n\n')
}

function eventList(events: NonNullable<Media['x-events']>, schemas: Schemas): string {
  const lines = Object.entries(events).flatMap(([name, { data = {} }]) => [
    fieldLine(name, data, false, schemas),
    ...fieldList(data, schemas, 1),
  ])
  return lines.join('\n')
}

function exampleText(entry: Entry, schemas: Schemas): string {
  const request = requestOf(entry, schemas)
  const [status, response] = Object.entries(entry.responses).find(([code]) => code.startsWith('2')) ?? [
    '200',
    {},
  ]
  const media = response.content?.[JSON_TYPE]
  const blocks = [
    `\`\`\`sh\n${curlOf(request)}\n\`\`\``,
    `\`\`\`ts\n${typescriptOf(entry, request)}\n\`\`\``,
    ...(media === undefined
      ? []
      : [`Response ${status}:`, `\`\`\`json\n${pretty(mediaExample(media, schemas, ''))}\n\`\`\``]),
  ]
  return blocks.join('\n\n')
}

interface ExampleRequest {
  readonly method: string
  /** With the values of the path and of what the query must have. */
  readonly path: string
  /** The same values by the names of the client's input. */
  readonly values: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

const pretty = (value: unknown) => JSON.stringify(value, null, 2)

function mediaExample(media: Media, schemas: Schemas, name: string): unknown {
  const [named] = Object.values(media.examples ?? {})
  return media.example ?? named?.value ?? exampleOf(media.schema ?? {}, schemas, name)
}

function requestOf(entry: Entry, schemas: Schemas): ExampleRequest {
  const { method, route, parameters, requestBody, security } = entry
  const exampleFor = ({ name, schema, example }: Parameter) => example ?? exampleOf(schema, schemas, name)
  const needed = parameters.filter(
    (one) => one.in === 'path' || (one.in === 'query' && one.required === true),
  )
  const values = Object.fromEntries(needed.map((one) => [one.name, exampleFor(one)]))
  const path = route.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURI(String(values[name] ?? name)))
  const query = needed.filter((one) => one.in === 'query')
  const search = query.map(({ name }) => `${name}=${encodeURIComponent(String(values[name]))}`).join('&')
  const [type, media] = Object.entries(requestBody?.content ?? {})[0] ?? []
  const credential: Record<string, string> = security.some((one) => 'apiKey' in one)
    ? { apikey: '$TENON_SERVICE_KEY' }
    : { authorization: 'Bearer $TOKEN' }
  const isJson = media !== undefined && /[+/]json$/.test(type ?? '')
  return {
    method,
    path: search === '' ? path : `${path}?${search}`,
    values,
    headers: {
      ...(security.length > 0 && credential),
      ...(type !== undefined && { 'content-type': type.includes('*') ? 'text/plain' : type }),
    },
    body: isJson ? mediaExample(media, schemas, entry['x-client'].body ?? '') : media && 'text',
  }
}

function curlOf({ method, path, headers, body }: ExampleRequest): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
  const verb = method === 'GET' ? '' : method === 'HEAD' ? ' --head' : ` -X ${method}`
  const parts = [
    `curl${verb} "$TENON_URL${path}"`,
    ...Object.entries(headers).map(([name, value]) => `  -H "${name}: ${value}"`),
    ...(body === undefined ? [] : [`  -d ${quoted(typeof body === 'string' ? body : pretty(body))}`]),
  ]
  return parts.join(' \\\n')
}

/** A call of the client: one object of what stands in the path, the query and the body. */
function typescriptOf(entry: Entry, { values, body }: ExampleRequest): string {
  const { group, method, body: field } = entry['x-client']
  const fields = field === undefined ? (body as object | undefined) : { [field]: body }
  const input = { ...values, ...fields }
  const call = `tenon.${group}.${method}(${Object.keys(input).length === 0 ? '' : asCode(input)})`
  const isStream = Object.values(entry.responses).some(({ content = {} }) => 'text/event-stream' in content)
  if (isStream) return `for await (const { event, data } of ${call}) console.log(event, data)`
  return `const result = await ${call}`
}

/** JSON as code: names without quotation marks where they need none. */
const asCode = (value: unknown) => pretty(value).replaceAll(/^(\s*)"([A-Za-z_]\w*)":/gm, '$1$2:')
