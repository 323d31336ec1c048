/**
 * Prepares a workspace for the page: declares the collections with their rules, adds two venues with their courts, deploys the
 * function, lets people sign up, and creates the client of the page. Writes config.json and the client of Tenon beside it. A second run applies changes of
 * this folder.
 *
 *   TENON_TOKEN=$(npx tenon token) node --env-file .env.local examples/court-booking/setup.mjs http://localhost:5173/
 */

import { readFile, writeFile } from 'node:fs/promises'
import { writePageClient } from '../page-client.mjs'

const { TENON_URL: url, TENON_WORKSPACE_ID: workspace_id, TENON_TOKEN: token } = process.env
const { TENON_SERVICE_KEY: apikey = '' } = process.env
const [page = 'http://localhost:5173/', folder = import.meta.dirname] = process.argv.slice(2)
const admin = { authorization: `Bearer ${token}` }
const service = { apikey }

/**
 * @param {Record<string, string>} as
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 * @returns {Promise<any>} the response's body; a refusal ends the program
 */
async function call(as, method, path, body) {
  const headers = { ...as, 'content-type': 'application/json' }
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
    const { data, page } = await call(admin, 'GET', `${path}?page[size]=200${after}`)
    const found = data.find(isMeant)
    if (found || !page.has_more) return found
    after = `&page[after]=${encodeURIComponent(page.next)}`
  }
}

/**
 * Declares a collection, or changes its declaration.
 * @param {string} collection
 * @param {Record<string, object>} properties
 * @param {Record<string, unknown>} more
 */
async function declare(collection, properties, { required = Object.keys(properties), ...more }) {
  const schema = { type: 'object', additionalProperties: false, properties, required }
  const known = await find(
    '/v1/schemas',
    (one) => one.workspace_id === workspace_id && one.collection === collection,
  )
  if (known) return call(admin, 'PUT', `/v1/schemas/${known.id}`, { schema, ...more })
  const body = { workspace_id, collection, store: 'relational', schema, ...more }
  return call(admin, 'POST', '/v1/schemas', body)
}

const name = { type: 'string', minLength: 1, maxLength: 200 }
const id = { type: 'string', format: 'uuid' }
const time = { type: 'string', format: 'date-time' }
const money = { type: 'string', format: 'decimal' }
const toRead = { anon: { read: false }, user: { read: true } }
const own = { _owner: '$user.id' }
/** Managers are users with this claim, which only an admin sets. */
const manager = { '$user.claims.role': 'manager' }

// `near` finds a venue whose name is misspelt.
await declare('booking_venues', { name }, { unique: [['name']], trigram: ['name'], access: toRead })
await declare(
  'booking_courts',
  { venue_id: id, name, hourly_price: money },
  {
    references: [{ field: 'venue_id', collection: 'booking_venues', inverse: 'courts' }],
    unique: [['venue_id', 'name']],
    access: toRead,
  },
)
await declare(
  'booking_bookings',
  { court_id: id, starts_at: time, ends_at: time, price: money },
  {
    required: ['court_id', 'starts_at', 'ends_at'],
    references: [{ field: 'court_id', collection: 'booking_courts', inverse: 'bookings' }],
    checks: [
      {
        name: 'ends_after_start',
        check: { ends_at: { gt: { $field: 'starts_at' } } },
        message: 'A booking ends after it starts.',
      },
    ],
    // However many people ask at once, a court has one booking at a time.
    exclude: [{ fields: ['court_id'], range: ['starts_at', 'ends_at'] }],
    indexes: [{ fields: ['_owner', 'starts_at'] }, { fields: ['starts_at'] }],
    // A user books an hour that has not begun, without a price, and may cancel until it begins.
    access: {
      anon: { read: false },
      user: {
        read: { $or: [own, manager] },
        create: { starts_at: { gt: '$now' }, price: { exists: false } },
        delete: { ...own, starts_at: { gt: '$now' } },
        aggregate: true,
      },
    },
  },
)

for (const [venue, courts] of Object.entries({ 'Riverside Club': 2, 'Hillcrest Tennis': 1 })) {
  const path = '/v1/collections/booking_venues/documents?upsert=name'
  const { id: venue_id } = await call(service, 'POST', path, { name: venue })
  for (let n = 1; n <= courts; n++)
    await call(service, 'POST', '/v1/collections/booking_courts/documents?upsert=venue_id,name', {
      ...{ venue_id, name: `Court ${n}`, hourly_price: n === 1 ? '24.50' : '18.00' },
    })
}

// It hears new bookings only, so what it writes does not start it again.
const source = await readFile(`${import.meta.dirname}/price.ts`, 'utf8')
const config = {
  triggers: [{ topics: ['collections.booking_bookings.created'] }],
  scopes: ['collections:read', 'collections:write'],
}
await call(admin, 'POST', '/v1/functions', { workspace_id, name: 'booking-price', source, config })

const auth = { sign_up: 'open', branding: { name: 'Courts' } }
await call(admin, 'POST', '/v1/services/configure', { workspace_id, auth })
const known = await find(
  '/v1/oauth-clients',
  (one) => one.workspace_id === workspace_id && one.audience === 'users' && one.redirect_uris.includes(page),
)
const wanted = {
  ...{ workspace_id, kind: 'public', audience: 'users', name: 'Courts', redirect_uris: [page] },
}
const client = known ?? (await call(admin, 'POST', '/v1/oauth-clients', wanted))
await writePageClient(folder)
await writeFile(`${folder}/config.json`, `${JSON.stringify({ url, client_id: client.client_id })}\n`)
console.log(`The page at ${page} uses the client ${client.client_id}.`)
