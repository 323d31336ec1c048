/** Prompts, resources and completions of a hosted server. */

import { isObject } from '../../core/json.ts'
import { Problem } from '../../core/problem.ts'
import type { CallClient } from '../../features/mcp-servers/calls/call-client.ts'
import { acceptedFields } from '../../features/mcp-servers/calls/client-requests.ts'
import type { CallResult } from '../../features/mcp-servers/calls/tool-result.ts'
import type { Manifest } from '../../features/mcp-servers/manifest.ts'
import {
  completionsOf,
  fillPrompt,
  isTemplate,
  type Prompt,
  readResource,
  shownPrompt,
  shownResource,
} from '../../features/mcp-servers/prompts.ts'
import type { Tool } from '../../features/mcp-servers/tool.ts'
import { resultReader } from '../../features/mcp-servers/tool-providers/results.ts'
import type { WatchedThing } from '../../features/mcp-servers/watch-resources.ts'
import type {
  InputRequired,
  McpCompletions,
  McpPrompts,
  McpResources,
  ResourceContents,
} from '../protocol/mcp-server.ts'

export function promptsOf({ prompts = {} }: Manifest): McpPrompts | undefined {
  if (Object.keys(prompts).length === 0) return undefined
  return {
    list: () => Object.entries(prompts).map(([name, prompt]) => shownPrompt(name, prompt)),
    get: async (name, args, client) => {
      const prompt = Object.hasOwn(prompts, name) ? prompts[name] : undefined
      if (prompt === undefined) return undefined
      const values = { ...receivedArguments(prompt, client), ...args }
      return requestArguments(prompt, values, client) ?? fillPrompt(prompt, values)
    },
  }
}

/** The name of the request for the arguments of a prompt. */
const ARGUMENTS = 'arguments'

/** Requests the arguments that are missing, if the client takes requests (MCP 2026-07-28). */
function requestArguments(
  prompt: Prompt,
  values: Readonly<Record<string, string>>,
  { capabilities }: CallClient,
): InputRequired | undefined {
  const missing = (prompt.arguments ?? []).filter(
    ({ name, required }) => required === true && !Object.hasOwn(values, name),
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

/** Arguments in the response of the client: texts of declared names. */
function receivedArguments(prompt: Prompt, { inputResponses }: CallClient): Record<string, string> {
  const response = isObject(inputResponses) ? inputResponses[ARGUMENTS] : undefined
  const declared = new Set((prompt.arguments ?? []).map(({ name }) => name))
  return Object.fromEntries(
    Object.entries(acceptedFields(response) ?? {}).flatMap(([name, value]) =>
      declared.has(name) && typeof value === 'string' ? [[name, value]] : [],
    ),
  )
}

export function completionsFor({ prompts = {} }: Manifest): McpCompletions | undefined {
  if (Object.keys(prompts).length === 0) return undefined
  return (name, argument, begin) =>
    completionsOf(Object.hasOwn(prompts, name) ? prompts[name] : undefined, argument, begin)
}

/** Calls of tools of the client, by which resources are read. */
export interface ToolReader {
  /** Tells if the client may call a tool. */
  readonly isGranted: Grants
  /** Calls a tool as the client. @param via runs in its place */
  readonly call: (tool: Tool, args: Record<string, unknown>, via?: Tool) => Promise<CallResult | undefined>
  /** The name of the tool whose result the client has under a handle. */
  readonly keptResultTool: (handle: string) => Promise<string | undefined>
}

/** The document or the object that a URI names; undefined if it has another form. */
export function thingOf(uri: string): (WatchedThing & { readonly offset: number }) | undefined {
  const [, collection, id] = DOCUMENT.exec(uri) ?? []
  if (collection !== undefined && id !== undefined)
    return { kind: 'document', within: collection, id, offset: 0 }
  const [, bucket, path = '', from = '0'] = OBJECT.exec(uri) ?? []
  const key = decoded(path)
  return bucket === undefined || key === undefined
    ? undefined
    : { kind: 'object', within: bucket, id: key, offset: Number(from) }
}

const DOCUMENT = /^tenon:\/\/([A-Za-z_][A-Za-z0-9_-]{0,62})\/([^/?#]{1,100})$/
const OBJECT = /^tenon-object:\/\/([a-z0-9-]{1,63})\/([^?#]{1,4096})(?:\?offset=([0-9]{1,12}))?$/
const RESULT = /^tenon-result:\/\/([0-9a-f]{32})\/?(?:\?offset=([0-9]{1,9}))?$/

type Grants = (tool: Tool) => boolean

const SOURCES = { document: 'collections', object: 'buckets' } as const
export type Readers = Readonly<Record<WatchedThing['kind'], ReadonlyMap<string, Tool>>>

/** The tools that read a document or an object, by collection and by bucket, as far as the client may call them. */
export const thingReaders = (tools: readonly Tool[], isGranted: Grants): Readers => ({
  document: readersOf(SOURCES.document, tools, isGranted),
  object: readersOf(SOURCES.object, tools, isGranted),
})

function readersOf(source: string, tools: readonly Tool[], isGranted: Grants): ReadonlyMap<string, Tool> {
  return new Map(
    tools.flatMap((tool) => {
      const [from, thing = '', verb] = tool.candidate.split(':')
      return from === source && verb === 'get' && isGranted(tool) ? [[thing, tool] as const] : []
    }),
  )
}

/**
 * The resources that an admin wrote, the documents and objects that the client may read one by one, and results that were too
 * large for their calls.
 */
export function resourcesOf({ resources = {}, tools }: Manifest, reader: ToolReader): McpResources {
  // Most requests are calls of tools, which need neither.
  const documents = () => readersOf(SOURCES.document, tools, reader.isGranted)
  const objects = () => readersOf(SOURCES.object, tools, reader.isGranted)
  const written = Object.entries(resources)
  return {
    list: () =>
      written
        .filter(([, resource]) => !isTemplate(resource))
        .map(([name, resource]) => ({ uri: resource.uri, ...shownResource(name, resource) })),
    templates: () => [
      ...written
        .filter(([, resource]) => isTemplate(resource))
        .map(([name, resource]) => ({ uriTemplate: resource.uri, ...shownResource(name, resource) })),
      ...[...documents()].map(([collection, { title }]) => ({
        uriTemplate: `tenon://${collection}/{id}`,
        name: collection,
        title,
        description: title,
        mimeType: 'application/json',
      })),
      ...[...objects()].map(([bucket, { title }]) => ({
        uriTemplate: `tenon-object://${bucket}/{+key}`,
        name: bucket,
        title,
        description: title,
        mimeType: 'application/octet-stream',
      })),
    ],
    read: async (uri) => {
      const thing = thingOf(uri)
      const tool = thing && thingReaders(tools, reader.isGranted)[thing.kind].get(thing.within)
      if (thing !== undefined && tool !== undefined) {
        if (thing.kind === 'document') return documentContents(uri, await reader.call(tool, { id: thing.id }))
        return fileContents(await reader.call(tool, { key: thing.id, offset: thing.offset }))
      }
      const [, handle, offset = '0'] = RESULT.exec(uri) ?? []
      if (handle === undefined) return readResource(resources, uri)
      const name = await reader.keptResultTool(handle)
      const kept = tools.find((one) => one.name === name)
      if (kept === undefined || !reader.isGranted(kept)) return undefined
      const args = { handle, offset: Number(offset) }
      return fileContents(await reader.call(kept, args, resultReader(kept)))
    },
  }
}

function documentContents(uri: string, result: CallResult | undefined) {
  if (result === undefined || result.is_error) return failed(result)
  return [{ uri, mimeType: 'application/json', text: JSON.stringify(result.structured_content) }]
}

/** A page of a file, and how to read the next one. */
function fileContents(result: CallResult | undefined): ResourceContents[] | undefined {
  if (result === undefined || result.is_error) return failed(result)
  return result.content.flatMap((block): ResourceContents[] => {
    if (block.type === 'resource') {
      const { mimeType = 'application/octet-stream', ...file } = block.resource
      return [{ ...file, mimeType }]
    }
    if (block.type !== 'resource_link') return []
    const text = `This is a part of ${block.size} bytes. Read ${block.uri} for the next one.`
    return [{ uri: block.uri, mimeType: 'text/plain', text }]
  })
}

/** Codes of problems of resources that are not there. */
const NOT_FOUND = /^(not_found|NoSuchKey|InvalidKey|KeyTooLongError):/

/** @throws Problem `validation_failed` with the text of any other error */
function failed(result: CallResult | undefined): undefined {
  const [first] = result?.content ?? []
  const text = first?.type === 'text' ? first.text : ''
  if (result === undefined || NOT_FOUND.test(text)) return undefined
  throw new Problem('validation_failed', { detail: text })
}

/** The key in the path of a URI; undefined if it is not percent-encoded correctly. */
function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path)
  } catch {
    return undefined
  }
}
