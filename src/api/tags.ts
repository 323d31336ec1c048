/** The chapters of the documentation: which nouns belong together, and what a newcomer should know of each. */

interface Chapter {
  readonly name: string
  readonly description: string
  /** First parts of operation names. */
  readonly nouns: readonly string[]
}

export const CHAPTERS: readonly Chapter[] = [
  {
    name: 'Collections',
    description:
      'JSON documents: filters, order, keyset pages; declared with a schema or made by the first write.',
    nouns: ['collection', 'collections', 'batch', 'schema'],
  },
  {
    name: 'Objects',
    description: "Bytes of any type in the workspace's bucket, as streams, with ranges and conditions.",
    nouns: ['object'],
  },
  {
    name: 'Events',
    description: "The tenant's stream: publish, and subscribe as server-sent events with replay.",
    nouns: ['event'],
  },
  {
    name: 'Functions',
    description:
      'TypeScript in a sandbox. Each call is a durable run; the reply is what the function returned.',
    nouns: ['function'],
  },
  {
    name: 'Flows',
    description:
      'Durable workflows in the Open Workflow Specification DSL: drafts, immutable versions, executions.',
    nouns: [
      'flow',
      'flow_version',
      'flow_alias',
      'flow_secret',
      'execution',
      'flow_execution',
      'schedule',
      'trigger',
    ],
  },
  {
    name: 'MCP servers',
    description:
      'Tools for agents, made of collections, functions, events and flows: curated, published, audited.',
    nouns: ['mcp_server', 'mcp_candidate', 'mcp_curation', 'mcp_version', 'mcp_call', 'mcp_client'],
  },
  {
    name: 'Identity',
    description: 'People, OAuth clients, and the keys of the embedded issuer.',
    nouns: ['account', 'oauth_client', 'issuer'],
  },
  {
    name: 'Temporal',
    description: 'What operators need beside the Temporal UI: payloads of runs in the clear.',
    nouns: ['codec'],
  },
  { name: 'Analytics', description: 'Requests, errors and latency of the workspace.', nouns: ['analytics'] },
  {
    name: 'Tenants',
    description: 'Tenants, their workspaces and keys, what they may use, and the long work that makes them.',
    nouns: ['me', 'limits', 'tenant', 'workspace', 'api_key', 'quota', 'service', 'operation'],
  },
  {
    name: 'Audit',
    description: 'Who changed what and who was refused, in a chain of hashes for each tenant.',
    nouns: ['audit'],
  },
]

/** @throws TypeError for a noun that no chapter has: our own mistake */
export function chapterOf(operation: string): string {
  const noun = operation.split('.')[0] ?? ''
  const chapter = CHAPTERS.find(({ nouns }) => nouns.includes(noun))
  if (chapter === undefined) throw new TypeError(`No chapter has ${noun}`)
  return chapter.name
}
