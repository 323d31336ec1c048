import { SignJWT } from 'jose'
import type { Context, Event } from 'tenon'

/** Sends each new order to another shop, signed with the key that the two share. */
const triggers = [{ topics: ['collections.orders.created'] }]
export const config = { triggers, secrets: ['SHOP_KEY'], egress: ['shop.example.com:443'] }

export default async ({ data: order }: Event, { secrets }: Context) => {
  const key = new TextEncoder().encode(secrets['SHOP_KEY'])
  const body = await new SignJWT({ order }).setProtectedHeader({ alg: 'HS256' }).sign(key)
  const { ok, status } = await fetch('https://shop.example.com/orders', { method: 'POST', body })
  if (!ok) throw new Error(`The shop has answered ${status}.`)
}
