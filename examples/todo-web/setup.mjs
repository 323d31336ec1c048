/**
 * Prepares a workspace for the page: declares the collection with its rules, lets people sign up, and creates the client of
 * the page. Writes config.json and the client of Tenon beside it. It can run again.
 *
 *   TENON_TOKEN=$(npx tenon token) node --env-file .env.local examples/todo-web/setup.mjs http://localhost:5173/
 */

import { writeFile } from 'node:fs/promises'
import { writePageClient } from '../page-client.mjs'

const { TENON_URL: url, TENON_WORKSPACE_ID: workspace_id, TENON_TOKEN: token } = process.env
const [page = 'http://localhost:5173/', folder = import.meta.dirname] = process.argv.slice(2)

/**
 * @param {string} path
 * @param {object} body
 * @returns {Promise<{client_id?: string} | undefined>} the response's body; undefined if the thing exists already. Another
 *   refusal ends the program
 */
async function post(path, body) {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const response = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  const result = /** @type {any} */ (await response.json())
  if (response.ok) return result
  if (result.code === 'conflict') return undefined
  const more = result.errors === undefined ? result.hint : JSON.stringify(result.errors)
  console.error(`POST ${path}: ${result.code}: ${result.detail}\n  ${more ?? ''}`)
  process.exit(1)
}

const own = { _owner: '$user.id' }
await post('/v1/schemas', {
  workspace_id,
  collection: 'private_todos',
  store: 'relational',
  schema: {
    type: 'object',
    required: ['title'],
    additionalProperties: false,
    properties: { title: { type: 'string', minLength: 1, maxLength: 200 }, done: { type: 'boolean' } },
  },
  indexes: [{ fields: ['_owner'] }],
  access: { anon: { read: false }, user: { read: own, create: true, update: own, delete: own } },
})
await post('/v1/services/configure', {
  workspace_id,
  auth: { sign_up: 'open', branding: { name: 'To-dos' } },
})
const client = await post('/v1/oauth-clients', {
  ...{ workspace_id, kind: 'public', audience: 'users', name: 'To-dos', redirect_uris: [page] },
})
const config = { url, client_id: client?.client_id }
await writePageClient(folder)
await writeFile(`${folder}/config.json`, `${JSON.stringify(config)}\n`)
console.log(`The page at ${page} uses the client ${config.client_id}.`)
