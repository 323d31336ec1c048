/** Reads the state of an installation as its admins see it. */

import { inject } from 'vitest'
import { call, operator, type Reply } from '../fixtures/tenants.ts'
import type { Running } from '../stack/start.ts'

/** The body of `GET /v1/status`, for an operator. */
export async function readStatus(at: Running = inject('tenon')): Promise<Reply['body']> {
  return (await call('GET', '/v1/status', { as: await operator(at), at })).body
}

/** A part of it by its name. */
export const partStatus = async (name: string, at?: Running): Promise<unknown> =>
  (await readStatus(at)).parts?.find((part: { readonly name: string }) => part.name === name)
