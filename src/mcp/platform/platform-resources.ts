/** The resources of the official MCP server: the flow language, its JSON Schema, and examples, from files of the package. */

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

function documents(folder: string): StoredResource[] {
  const flows = {
    uri: 'tenon://docs/flows',
    name: 'flows',
    title: 'Flows',
    description: 'What a flow is, and how it is validated, published and run.',
    mimeType: 'text/markdown',
    file: 'docs/flows.md',
  }
  const language = {
    uri: 'tenon://docs/flow-language',
    name: 'flow-language',
    title: 'The flow language',
    description:
      'All tasks, data flow, expressions, errors, events, approvals and compensation, with short flows.',
    mimeType: 'text/markdown',
    file: LANGUAGE,
  }
  return [flows, language]
    .filter(({ file }) => existsSync(join(folder, file)))
    .map(({ file, ...resource }) => textResource(resource, readFileSync(join(folder, file), 'utf8')))
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
