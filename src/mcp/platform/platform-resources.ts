/** The resources of the platform's MCP server: pages of the documentation, the JSON Schema of flows, and examples, from files of the package. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { editorSchema } from '../../../flows-dsl/language-schema/language-schema.ts'
import { CATALOGUE } from '../../features/data-operations.ts'
import type { McpResource, McpResources, ResourceContents } from '../protocol/mcp-server.ts'

const LANGUAGE = 'flows-dsl/README.md'
const EXAMPLES = 'flows-dsl/examples'

interface StoredResource {
  readonly resource: McpResource
  readonly contents: readonly ResourceContents[]
}

/** Reads all files at once; a file that an image lacks is no resource. */
export function loadPlatformResources(): McpResources {
  const folder = packageFolder()
  const stored = [flowSchema(), ...(folder === undefined ? [] : [...documents(folder), ...examples(folder)])]
  const byUri = new Map(stored.map((one) => [one.resource.uri, one]))
  return {
    list: () => stored.map(({ resource }) => resource),
    read: async (uri) => byUri.get(uri)?.contents,
  }
}

/** The folder above this file that has the flow language: bundles of the API lie at different depths. */
function packageFolder(): string | undefined {
  let folder: string = import.meta.dirname
  while (!existsSync(join(folder, LANGUAGE))) {
    if (folder === dirname(folder)) return undefined
    folder = dirname(folder)
  }
  return folder
}

function textResource(resource: McpResource, text: string): StoredResource {
  const { uri, mimeType } = resource
  return { resource, contents: [{ uri, mimeType, text }] }
}

/** Without spaces, which are half of it. */
function flowSchema(): StoredResource {
  const resource = {
    uri: 'tenon://docs/flow-schema',
    name: 'flow-schema',
    title: 'JSON Schema of flows',
    description: 'Each task and its fields, and the functions of the platform that a flow may call.',
    mimeType: 'application/schema+json',
  }
  return textResource(resource, JSON.stringify(editorSchema(CATALOGUE)))
}

/** Pages of the documentation, by the last part of their URI. */
const PAGES = [
  {
    name: 'flows',
    title: 'Flows',
    description: 'What a flow is, and how it is validated, published and run.',
    file: 'docs/flows.md',
  },
  {
    name: 'flow-language',
    title: 'The flow language',
    description:
      'All tasks, data flow, expressions, errors, events, approvals and compensation, with short flows.',
    file: LANGUAGE,
  },
  {
    name: 'functions',
    title: 'Functions',
    description: 'How a function is written, deployed, configured and invoked, and what its context has.',
    file: 'docs/functions.md',
  },
  {
    name: 'collections',
    title: 'Collections',
    description: 'Collections of JSON documents: requests, versions, limits.',
    file: 'docs/collections.md',
  },
  {
    name: 'queries',
    title: 'Queries',
    description: 'Filters, order, pages and counts of lists of documents.',
    file: 'docs/queries.md',
  },
  {
    name: 'schemas',
    title: 'Declared collections',
    description: 'Schemas, indexes, unique constraints and access rules of collections, and how they change.',
    file: 'docs/schemas.md',
  },
  {
    name: 'mcp',
    title: 'MCP servers',
    description: 'The tools of this server, and how a workspace publishes servers of its own.',
    file: 'docs/mcp.md',
  },
] as const

const uriOf = (name: string) => `tenon://docs/${name}`

function documents(folder: string): StoredResource[] {
  return PAGES.filter(({ file }) => existsSync(join(folder, file))).map(({ file, name, ...more }) => {
    const text = withReadableLinks(readFileSync(join(folder, file), 'utf8'), file)
    return textResource({ uri: uriOf(name), name, ...more, mimeType: 'text/markdown' }, text)
  })
}

/** Lets links to other resources name their URI, and removes other links to files, which no client can open. */
function withReadableLinks(text: string, file: string): string {
  return text.replace(
    /\[([^\]]+)\]\((?!https:)([^)\s#]*)(#[^)\s]*)?\)/g,
    (_link, title: string, path: string, anchor = '') => {
      const target = path === '' ? file : join(dirname(file), path)
      const page = PAGES.find((one) => one.file === target)
      return page === undefined ? title : `[${title}](${uriOf(page.name)}${anchor})`
    },
  )
}

/** Each flow with its test cases. Its first line is a comment that describes it. */
function examples(folder: string): StoredResource[] {
  const read = (name: string) => readFileSync(join(folder, EXAMPLES, name), 'utf8')
  const names = readdirSync(join(folder, EXAMPLES)).filter((name) => /^[a-z0-9-]+\.yaml$/.test(name))
  return names.sort().map((file) => {
    const name = file.replace('.yaml', '')
    const [uri, mimeType] = [`tenon://examples/${name}`, 'application/yaml']
    const text = read(file)
    const description = /^# (.*)/.exec(text)?.[1] ?? ''
    const cases = `${name}.cases.yaml`
    const contents = [
      { uri, mimeType, text },
      ...(existsSync(join(folder, EXAMPLES, cases))
        ? [{ uri: `${uri}.cases`, mimeType, text: read(cases) }]
        : []),
    ]
    return { resource: { uri, name, title: `Example flow ${name}`, description, mimeType }, contents }
  })
}
