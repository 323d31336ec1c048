/** Prompts, resources and completions of a hosted server. */

import { Problem } from '../core/problem.ts'
import type { Manifest } from '../features/mcp-servers/manifest.ts'
import {
  completionsOf,
  fillPrompt,
  isTemplate,
  readResource,
  shownPrompt,
  shownResource,
} from '../features/mcp-servers/prompts.ts'
import type { Tool } from '../features/mcp-servers/tool.ts'
import type { McpCompletions, McpPrompts, McpResources, ToolResult } from './transport.ts'

export function promptsOf({ prompts = {} }: Manifest): McpPrompts | undefined {
  if (Object.keys(prompts).length === 0) return undefined
  return {
    list: () => Object.entries(prompts).map(([name, prompt]) => shownPrompt(name, prompt)),
    get: async (name, args) => {
      const prompt = Object.hasOwn(prompts, name) ? prompts[name] : undefined
      return prompt === undefined ? undefined : fillPrompt(prompt, args)
    },
  }
}

export function completionsFor({ prompts = {} }: Manifest): McpCompletions | undefined {
  if (Object.keys(prompts).length === 0) return undefined
  return (name, argument, begin) =>
    completionsOf(Object.hasOwn(prompts, name) ? prompts[name] : undefined, argument, begin)
}

/** Reads a document through its tool, as a call of the client. */
type ReadDocument = (tool: Tool, id: string) => Promise<ToolResult | undefined>

const DOCUMENT = /^tenon:\/\/([A-Za-z_][A-Za-z0-9_-]{0,62})\/([^/?#]{1,100})$/

/**
 * The resources that an admin wrote, and the documents of collections that the client may read one by one.
 * @param isGranted tells if the client may call a tool
 */
export function resourcesOf(
  { resources = {}, tools }: Manifest,
  isGranted: (tool: Tool) => boolean,
  readDocument: ReadDocument,
): McpResources | undefined {
  const readers = new Map(
    tools.flatMap((tool) => {
      const [, collection, verb] = tool.candidate.split(':')
      return verb === 'get' && collection !== undefined && isGranted(tool)
        ? [[collection, tool] as const]
        : []
    }),
  )
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
      const [, collection = '', id = ''] = DOCUMENT.exec(uri) ?? []
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
