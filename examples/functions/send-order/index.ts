import { SignJWT } from 'jose'
import type { Context, Event } from 'tenon'

/** Tells another shop of each new order, and notes on the order that it was sent. */
export const config = {
  triggers: [{ topics: ['collections.orders.created'] }],
  secrets: ['SHOP_KEY'],
  egress: ['shop.example.com:443'],
  env: { SHOP_URL: 'https://shop.example.com' },
  scopes: ['collections:write'],
}

export default async ({ data: order }: Event, { env, secrets, tenon }: Context) => {
  const key = new TextEncoder().encode(secrets['SHOP_KEY'])
  const token = await new SignJWT({ order: order.id }).setProtectedHeader({ alg: 'HS256' }).sign(key)
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const body = JSON.stringify(order)
  const { ok } = await fetch(`${env['SHOP_URL']}/orders`, { method: 'POST', headers, body })
  await tenon.collections.update('orders', order.id, { sent: ok })
}
