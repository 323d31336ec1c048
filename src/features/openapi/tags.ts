/** Areas of the API: the tags of the OpenAPI document, and the groups of typed clients, by the nouns of operations. */

/** The tags of the document; `nouns` are the first parts of operation names. */
export const TAGS = [
  {
    name: 'Collections',
    description:
      'JSON documents: filters, order, keyset pages; declared with a schema or created by the first write.',
    nouns: ['collection', 'collections', 'batch', 'bulk_change', 'schema'],
  },
  {
    name: 'Objects',
    description:
      "Objects of any media type in the workspace's bucket, as streams, with ranges, conditions and uploads that resume.",
    nouns: ['object', 'upload'],
  },
  {
    name: 'Events',
    description: 'Events of the tenant: publish, and subscribe as server-sent events with replay.',
    nouns: ['event'],
  },
  {
    name: 'Functions',
    description:
      'TypeScript in a sandbox. Each call is a durable run; the response is the return value of the function.',
    nouns: [
      'function',
      'function_version',
      'function_alias',
      'function_trigger',
      'function_run',
      'invocation',
    ],
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
      'execution_step',
      'approval',
      'inbox',
      'schedule',
      'trigger',
    ],
  },
  {
    name: 'MCP servers',
    description:
      'Tools for agents, made of collections, functions, events and flows: curated, published, audited.',
    nouns: [
      'mcp_server',
      'mcp_candidate',
      'mcp_curation',
      'mcp_version',
      'mcp_call',
      'mcp_client',
      'mcp_source',
    ],
  },
  {
    name: 'Identity',
    description:
      'Accounts of people, end users of workspaces, OAuth clients, and the keys of the embedded issuer.',
    nouns: ['account', 'user', 'oauth_client', 'issuer', 'sign_in_policy'],
  },
  {
    name: 'Temporal',
    description: 'Support of the Temporal UI for operators: decrypted payloads of executions.',
    nouns: ['codec'],
  },
  {
    name: 'Analytics',
    description: 'Metrics of a workspace or tenant, and usage by the hour.',
    nouns: ['analytics', 'usage'],
  },
  {
    name: 'Tenants',
    description:
      'Tenants, their workspaces and host names, API keys, settings and quotas, and the operations that create them.',
    nouns: [
      'me',
      'limits',
      'status',
      'tenant',
      'workspace',
      'openapi',
      'host',
      'api_key',
      'data_token',
      'quota',
      'service',
      'operation',
    ],
  },
  {
    name: 'Audit',
    description: 'Changes and denied requests with their callers, in a hash chain per tenant.',
    nouns: ['audit'],
  },
]

/** The tag of the noun of an operation; undefined if none lists it. */
export function tagOf(operation: string): string | undefined {
  const noun = operation.split('.')[0] ?? ''
  return TAGS.find(({ nouns }) => nouns.includes(noun))?.name
}

/** @throws TypeError if no tag lists the noun of the operation */
export function requireTag(operation: string): string {
  const tag = tagOf(operation)
  if (tag === undefined) throw new TypeError(`no tag lists the noun of ${operation}`)
  return tag
}

interface ClientName {
  readonly group: string
  readonly method: string
}

/** Groups of nouns that have no plural, or stand for one thing. */
const GROUPS: Readonly<Record<string, string>> = {
  me: 'me',
  limits: 'limits',
  analytics: 'analytics',
  usage: 'usage',
  openapi: 'openapi',
  status: 'status',
  issuer: 'issuer',
  sign_in_policy: 'signInPolicy',
  collections: 'collections',
  batch: 'batch',
  audit: 'audit',
  codec: 'codec',
  inbox: 'inbox',
  mcp_curation: 'mcpCuration',
}

/** Methods by their operation, where another operation of the group has the name that the rule gives. */
const METHODS: Readonly<Record<string, string>> = {
  // `collection.list` lists documents of one collection.
  'collections.list': 'listCollections',
}

/**
 * The name of an operation in typed clients: `execution.retry_step` is `client.executions.retryStep()`. The group is the plural of the noun, the method is the verb, both in camel
 * case. @param operation `noun.verb`
 */
export function clientName(operation: string): ClientName {
  const [noun = '', verb = ''] = operation.split('.')
  const plural = noun.endsWith('s') ? `${noun}es` : `${noun}s`
  return { group: GROUPS[noun] ?? camelCase(plural), method: METHODS[operation] ?? camelCase(verb) }
}

const camelCase = (name: string): string =>
  name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
