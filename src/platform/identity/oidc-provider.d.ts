/** A file of the provider for which nobody has types. */

declare module 'oidc-provider/lib/helpers/als.js' {
  import type { AsyncLocalStorage } from 'node:async_hooks'

  const storage: AsyncLocalStorage<never>

  export { storage as default }
}
