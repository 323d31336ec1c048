/** Identifies the authorization that is under way in a browser. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { Problem } from '../../core/problem.ts'
import type { InteractionRequest } from '../../features/identity/issuer/sign-in.ts'
import { plainPage } from '../../features/identity/pages/pages.ts'
import { requesterOf } from './forms.ts'

export const EXPIRED = plainPage(
  'This sign-in has ended',
  'Go back to the application, and start the sign-in again.',
  404,
)
export const interactionOf = (request: FastifyRequest, reply: FastifyReply): InteractionRequest => ({
  request: request.raw,
  response: reply.raw,
  uid: (request.params as { uid: string }).uid,
  by: requesterOf(request),
})

/** Pages below the path of an interaction share its cookie. */
export const interactionPath = ({ params }: FastifyRequest) =>
  `/auth/interaction/${encodeURIComponent((params as { uid: string }).uid)}`

/** @returns undefined if no authorization is under way in this browser */
export function undefinedIfExpired<T>(work: Promise<T>): Promise<T | undefined> {
  return work.catch((error: unknown) => {
    if (error instanceof Problem && error.code === 'not_found') return undefined
    throw error
  })
}
