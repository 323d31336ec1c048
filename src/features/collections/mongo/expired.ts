/** Finds and deletes documents in MongoDB that have expired, some at a time. */

import { LRUCache } from 'lru-cache'
import type { DocumentsHandle } from '../../../infra/mongo/mongo.ts'
import { expiredFilter } from '../expiry/expiry.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Store } from '../store.ts'
import { compileFilter } from './compile.ts'

/**
 * By collection, the id up to which this process has looked for expired documents. No index holds when documents expire, so a round
 * looks at some and the next one goes on there.
 */
const WALKED = new LRUCache<string, string>({ max: COLLECTION_LIMITS.expiry.walksMax })

/** The part of the store that deals with expiry. */
export function expiredDocuments(documents: DocumentsHandle): Pick<Store, 'removeExpired' | 'expiredAmong'> {
  return {
    removeExpired: async ({ ref }, { name, declared }, limit) => {
      if (declared?.expiry === undefined) return { removed: 0, kept: 0 }
      const open = documents.withoutRules
      const walk = `${ref.tenantId}/${ref.workspaceId}/${name}`
      const after = WALKED.get(walk) ?? ''
      const end = await open.findNth(name, after, limit * COLLECTION_LIMITS.expiry.readPerDeletion)
      const among = { id: { $gt: after, ...(end !== undefined && { $lte: end }) } }
      const filter = { $and: [among, compileFilter(expiredFilter(declared.expiry))] }
      const found = await open.findIds(name, filter, limit)
      // One may have got a later time meanwhile.
      if (found.length > 0) await open.deleteAll(name, found, filter)
      WALKED.set(walk, (found.length === limit ? found.at(-1) : end) ?? '')
      return { removed: found.length, kept: 0 }
    },

    expiredAmong: async (_scope, { name, declared }, ids) => {
      if (declared?.expiry === undefined) return new Set()
      const filter = { $and: [{ id: { $in: ids } }, compileFilter(expiredFilter(declared.expiry))] }
      return new Set(await documents.withoutRules.findIds(name, filter, ids.length))
    },
  }
}
