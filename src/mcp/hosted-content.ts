/** Prompts, resources and completions of a hosted server. */

import { isObject } from '../core/json.ts'
import { Problem } from '../core/problem.ts'
import type { CallClient } from '../features/mcp-servers/calls/call-client.ts'

import type { Manifest } from '../features/mcp-servers/manifest.ts'
import {
  completionsOf,
  fillPrompt,
  isTemplate,
  type Prompt,
  readResource,
  shownPrompt,
  shownResource,
} from '../features/mcp-servers/prompts.ts'
import type { Tool } from '../features/mcp-servers/tool.ts'
import type { InputRequired, McpCompletions, McpPrompts, McpResources, ToolResult } from './mcp-server.ts'

export function promptsOf({ prompts = {} }: Manifest): McpPrompts | undefined {
  if (Object.keys(prompts).length === 0) return undefined
  return {
    list: () => Object.entries(prompts).map(([name, prompt]) => shownPrompt(name, prompt)),
    get: async (name, args, client) => {
      const prompt = Object.hasOwn(prompts, name) ? prompts[name] : undefined
      if (prompt === undefined) return undefined
      const given = { ...answeredArguments(prompt, client), ...args }
      return askForArguments(prompt, given, client) ?? fillPrompt(prompt, given)
    },
  }
}

/** The name of the request for the arguments of a prompt. */
const ARGUMENTS = 'arguments'

/** Asks for the arguments that are missing, if the client can be asked (MCP 2026-07-28). */
function askForArguments(
  prompt: Prompt,
  given: Readonly<Record<string, string>>,
  { capabilities }: CallClient,
): InputRequired | undefined {
  const missing = (prompt.arguments ?? []).filter(
    ({ name, required }) => required === true && !Object.hasOwn(given, name),
  )
  if (missing.length === 0 || !isObject(capabilities?.['elicitation'])) return undefined
  const properties = Object.fromEntries(
    missing.map(({ name, description, values }) => [
      name,
      { type: 'string', ...(description && { description }), ...(values?.length && { enum: values }) },
    ]),
  )
  const params = {
    mode: 'form',
    message: prompt.title ?? prompt.description ?? 'Arguments of the prompt',
    requestedSchema: { type: 'object', properties, required: missing.map(({ name }) => name) },
  }
  return {
    resultType: 'input_required',
    inputRequests: { [ARGUMENTS]: { method: 'elicitation/create', params } },
  }
}

/** Arguments in the answer of the client: texts of declared names. */
function answeredArguments(prompt: Prompt, { inputResponses }: CallClient): Record<string, string> {
  const answer = isObject(inputResponses) ? inputResponses[ARGUMENTS] : undefined
  const { action, content } = Object(answer) as { action?: unknown; content?: unknown }
  if (action !== 'accept' || !isObject(content)) return {}
  const declared = new Set((prompt.arguments ?? []).map(({ name }) => name))
  return Object.fromEntries(
    Object.entries(content).flatMap(([name, value]) =>
      declared.has(name) && typeof value === 'string' ? [[name, value]] : [],
    ),
  )
}

export function completionsFor({ prompts = {} }: Manifest): McpCompletions | undefined {
  if (Object.keys(prompts).length === 0) return undefined
  return (name, argument, begin) =>
    completionsOf(Object.hasOwn(prompts, name) ? prompts[name] : undefined, argument, begin)
}

/** Reads a document through its tool, as a call of the client. */
type ReadDocument = (tool: Tool, id: string) => Promise<ToolResult | undefined>

/** The document that a URI names; undefined if it has another form. */
export function documentOf(uri: string): { collection: string; id: string } | undefined {
  const [, collection, id] = DOCUMENT.exec(uri) ?? []
  return collection === undefined || id === undefined ? undefined : { collection, id }
}

const DOCUMENT = /^tenon:\/\/([A-Za-z_][A-Za-z0-9_-]{0,62})\/([^/?#]{1,100})$/

/** The tools that read a document of a collection, by collection, as far as the client may call them. */
export function documentReaders(
  tools: readonly Tool[],
  isGranted: (tool: Tool) => boolean,
): ReadonlyMap<string, Tool> {
  return new Map(
    tools.flatMap((tool) => {
      const [source, collection, verb] = tool.candidate.split(':')
      return source === 'collections' && verb === 'get' && collection !== undefined && isGranted(tool)
        ? [[collection, tool] as const]
        : []
    }),
  )
}

/**
 * The resources that an admin wrote, and the documents of collections that the client may read one by one.
 * @param isGranted tells if the client may call a tool
 */
export function resourcesOf(
  { resources = {}, tools }: Manifest,
  isGranted: (tool: Tool) => boolean,
  readDocument: ReadDocument,
): McpResources | undefined {
  const readers = documentReaders(tools, isGranted)
  const written = Object.entries(resources)
  if (readers.size === 0 && written.length === 0) return undefined
  return {
    list: () =>
      written
        .filter(([, resource]) => !isTemplate(resource))
        .map(([name, resource]) => ({ uri: resource.uri, ...shownResource(name, resource) })),
    templates: () => [
      ...written
        .filter(([, resource]) => isTemplate(resource))
        .map(([name, resource]) => ({ uriTemplate: resource.uri, ...shownResource(name, resource) })),
      ...[...readers].map(([collection, { title }]) => ({
        uriTemplate: `tenon://${collection}/{id}`,
        name: collection,
        title,
        description: title,
        mimeType: 'application/json',
      })),
    ],
    read: async (uri) => {
      const { collection = '', id = '' } = documentOf(uri) ?? {}
      const reader = readers.get(collection)
      if (reader === undefined) return readResource(resources, uri)
      const result = await readDocument(reader, id)
      if (result?.isError === false)
        return [{ uri, mimeType: 'application/json', text: JSON.stringify(result.structuredContent) }]
      const [first] = result?.content ?? []
      const text = first?.type === 'text' ? first.text : ''
      if (result === undefined || text.startsWith('not_found')) return undefined
      throw new Problem('validation_failed', { detail: text })
    },
  }
}
