/**
 * Prepares a workspace for the page: declares the collections with their rules, opens a folder of objects, deploys the function,
 * publishes the flow, lets people sign up, and creates the client of the page. Writes config.json and the client of Tenon beside it. A second run applies
 * changes of this folder.
 *
 *   TENON_TOKEN=$(npx tenon token) node --env-file .env.local examples/support-desk/setup.mjs http://localhost:5173/ mia@example.com
 */

import { readFile, writeFile } from 'node:fs/promises'
import { writePageClient } from '../page-client.mjs'

const { TENON_URL: url, TENON_WORKSPACE_ID: workspace_id, TENON_TOKEN: token } = process.env
const [page = 'http://localhost:5173/', approver = 'approver@example.com', folder = import.meta.dirname] =
  process.argv.slice(2)

/**
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 * @returns {Promise<any>} the response's body; a refusal ends the program
 */
async function call(method, path, body) {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const content = body && { body: JSON.stringify(body) }
  const response = await fetch(`${url}${path}`, { method, headers, ...content })
  const result = /** @type {any} */ (await response.json())
  if (response.ok) return result
  const faults = result.errors ?? result.offending
  const more = faults === undefined ? result.hint : JSON.stringify(faults)
  console.error(`${method} ${path}: ${result.code}: ${result.detail}\n  ${more ?? ''}`)
  process.exit(1)
}

/**
 * @param {string} path of a list
 * @param {(one: any) => boolean} isMeant
 * @returns {Promise<any>} undefined if there is none
 */
async function find(path, isMeant) {
  for (let after = ''; ; ) {
    const { data, page } = await call('GET', `${path}?page[size]=200${after}`)
    const found = data.find(isMeant)
    if (found || !page.has_more) return found
    after = `&page[after]=${encodeURIComponent(page.next)}`
  }
}

/**
 * Declares a collection, or changes its declaration.
 * @param {string} collection
 * @param {Record<string, object>} properties
 * @param {object} more
 */
async function declare(collection, properties, more) {
  const schema = {
    type: 'object',
    additionalProperties: false,
    properties,
    required: Object.keys(properties),
  }
  const known = await find(
    '/v1/schemas',
    (one) => one.workspace_id === workspace_id && one.collection === collection,
  )
  if (known) return call('PUT', `/v1/schemas/${known.id}`, { schema, ...more })
  return call('POST', '/v1/schemas', { workspace_id, collection, store: 'relational', schema, ...more })
}

const id = { type: 'string', format: 'uuid' }
const text = { type: 'string', minLength: 1, maxLength: 5000 }
const line = { type: 'string', minLength: 1, maxLength: 200 }
/** Agents are users with this claim, which only an admin sets. */
const agent = { '$user.claims.role': 'agent' }
const ownOrAgent = { $or: [{ _owner: '$user.id' }, agent] }
const closed = { read: false }

// No user may update or delete anything: the flow alone changes `status`, and the function `priority`.
await declare(
  'desk_tickets',
  {
    email: line,
    subject: line,
    text,
    file: { ...line, minLength: 0 },
    status: { enum: ['open', 'refunded'], type: 'string' },
    priority: { enum: ['normal', 'urgent'], type: 'string' },
  },
  {
    indexes: [{ fields: ['_owner'] }],
    access: {
      anon: closed,
      user: { read: ownOrAgent, create: { email: '$user.email', status: 'open', priority: 'normal' } },
    },
  },
)
await declare(
  'desk_answers',
  { ticket: id, customer: line, text },
  {
    indexes: [{ fields: ['customer'] }],
    access: { anon: closed, user: { read: { $or: [{ customer: '$user.id' }, agent] }, create: agent } },
  },
)
await declare(
  'desk_refunds',
  {
    ticket: id,
    euros: { type: 'integer', minimum: 1, maximum: 1000 },
    status: { enum: ['requested', 'approved', 'rejected'], type: 'string' },
  },
  {
    unique: [['_owner', 'ticket']],
    access: { anon: closed, user: { read: ownOrAgent, create: { status: 'requested' } } },
  },
)

// The claim `files` of an agent is `tickets`: it opens the folders of all customers.
const objects = {
  user: { read: ['tickets/{user.id}/', '{user.claims.files}/'], write: ['tickets/{user.id}/'], delete: [] },
}
const auth = { sign_up: 'open', branding: { name: 'Support desk' } }
await call('POST', '/v1/services/configure', { workspace_id, objects, auth })

// It hears new tickets only, so what it writes does not start it again.
const triage = await readFile(`${import.meta.dirname}/triage.ts`, 'utf8')
const config = { triggers: [{ topics: ['collections.desk_tickets.created'] }], scopes: ['collections:write'] }
await call('POST', '/v1/functions', { workspace_id, name: 'desk-triage', source: triage, config })

const flows = `/v1/flows/workspaces/${workspace_id}/definitions`
const flow = await readFile(`${import.meta.dirname}/refund.yaml`, 'utf8')
const source = flow.replace('approver@example.com', () => JSON.stringify(approver))
const isPublished = await find(flows, ({ name }) => name === 'desk-refund')
await (isPublished ? call('PUT', `${flows}/desk-refund`, { source }) : call('POST', flows, { source }))
await call('POST', `${flows}/desk-refund/versions`, {})

const known = await find(
  '/v1/oauth-clients',
  (one) => one.workspace_id === workspace_id && one.audience === 'users' && one.redirect_uris.includes(page),
)
const wanted = {
  ...{ workspace_id, kind: 'public', audience: 'users', name: 'Support desk', redirect_uris: [page] },
}
const client = known ?? (await call('POST', '/v1/oauth-clients', wanted))
const { bucket } = await call('GET', `/v1/workspaces/${workspace_id}`)
await writePageClient(folder)
await writeFile(`${folder}/config.json`, `${JSON.stringify({ url, client_id: client.client_id, bucket })}\n`)
console.log(`The page at ${page} uses the client ${client.client_id}. ${approver} decides about refunds.`)
