/** The rows of the sweep for the role `user`: how each operation answers the token of an end user. */

const words = (text: string): readonly string[] => text.trim().split(/\s+/)

/** Operations that take no user, by the code of their refusal. */
const CLOSED_TO_USERS = {
  /** Operations of admins. */
  privilege_domain_mismatch: words(`
    tenant.create tenant.get tenant.drift tenant.list tenant.suspend tenant.resume tenant.retry tenant.delete tenant.restore tenant.update
    workspace.create workspace.get openapi.get workspace.list workspace.suspend workspace.resume workspace.retry workspace.delete workspace.restore workspace.update
    workspace.export workspace.import tenant.export tenant.import operation.get_archive
    host.create host.list host.verify host.delete
    data_token.create
    api_key.create api_key.get api_key.list api_key.update api_key.rotate api_key.revoke
    account.create account.get account.list account.update account.invite account.reset account.confirm account.delete
    account.reset_factors account.list_sessions account.end_session sign_in_policy.get sign_in_policy.set
    oauth_client.create oauth_client.get oauth_client.list oauth_client.rotate_secret oauth_client.delete
    user.create user.get user.list user.update user.invite user.sign_out user.reset_factors user.delete user.export
    user.list_sessions user.end_session
    issuer.rotate_keys
    collection.explain collection.drop collection.truncate collection.rename
    schema.infer schema.export schema.plan schema.apply schema.create schema.get schema.list schema.update schema.delete
    operation.get operation.list
    quota.set quota.get service.configure service.get status.get
    audit.list audit.verify
    codec.decode codec.encode
    function.create function.get function.list function.configure function.delete
    function_version.list function_version.get function_version.activate
    function_alias.list function_alias.get function_alias.set function_alias.delete
    function_trigger.list
    function_run.list function_run.get function_run.logs function_run.watch_logs function_run.redrive function_run.delete
    function_run.redrive_all
    flow.list flow.create flow.get flow.update flow.delete flow.metrics flow.validate flow.graph flow.simulate
    flow_version.create flow_version.list flow_version.get
    flow_alias.list flow_alias.get flow_alias.set flow_alias.delete
    flow_secret.set flow_secret.list flow_secret.delete
    execution.create execution.get execution.list flow_execution.list execution.watch execution.subscribe
    execution_step.list execution_step.get
    execution.signal execution.approve execution.retry_step execution.skip_step execution.pause execution.resume
    execution.patch_data execution.cancel execution.rerun
    approval.list approval.get approval.decide
    schedule.list schedule.get schedule.pause schedule.resume schedule.trigger
    trigger.list trigger.rotate_secret trigger.pause trigger.resume trigger.test
    mcp_server.list mcp_server.create mcp_server.get mcp_server.update mcp_server.delete mcp_server.preview mcp_server.call
    mcp_candidate.list mcp_curation.replace
    mcp_version.create mcp_version.list mcp_version.get mcp_version.activate mcp_version.approve
    mcp_call.list mcp_call.verify mcp_client.create mcp_client.list mcp_client.delete
    mcp_source.list mcp_source.create mcp_source.get mcp_source.refresh mcp_source.delete
    usage.list usage.query`),
  /**
   * Operations of keys, whose effects no rule of the workspace decides about; and those on sessions, which the users of the sweep, whom no
   * store knows, do not have.
   */
  forbidden: words(`
    analytics.query
    flow.start flow.list_executions flow.get_execution flow.watch_execution flow.get_result
    inbox.list inbox.get inbox.decide
    invocation.list invocation.get invocation.logs invocation.watch_logs
    me.list_sessions me.end_session me.list_consents me.end_consent`),
} as const

export const OPEN_TO_USERS = {
  /** Operations about the caller. */
  caller: words('me.get limits.get analytics.metrics'),
  /** Operations whose every effect a rule of the workspace decides about. */
  rules: words(`
    collections.list
    collection.create collection.get collection.list collection.query collection.list_groups collection.aggregate collection.update collection.patch
    collection.delete collection.import collection.export collection.batch collection.update_many collection.delete_many
    collection.subscribe
    batch.run
    event.subscribe`),
  /** Operations that a setting of the workspace, or of a function, opens, or that are open for the caller's own id: test/integration/access-rules has such settings. */
  settings: words(`
    object.put object.head object.get object.delete object.list object.describe object.update object.copy object.move object.remove_all
    bulk_change.get bulk_change.list bulk_change.cancel
    object.get_removal object.upload_form object.presign
    upload.create upload.head upload.append upload.delete
    event.publish user.export_data
    function.invoke function.fetch invocation.get_operation`),
} as const

/** Every operation with a row. */
export const USER_ROWS: readonly string[] = [
  ...Object.values(CLOSED_TO_USERS).flat(),
  ...Object.values(OPEN_TO_USERS).flat(),
]

/** The code of the refusal; undefined for an operation that takes users. */
export const refusalOfUsers = (name: string): string | undefined =>
  Object.entries(CLOSED_TO_USERS).find(([, names]) => names.includes(name))?.[0]
