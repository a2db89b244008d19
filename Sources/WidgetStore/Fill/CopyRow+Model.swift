import PostgresClient
import WidgetModel

extension PostgresCopyRow {
    /// Five columns: what a timeline is for, besides its kind. `family`, `configuration`, `locale`, `time_zone`, `user_id`.
    mutating func append(_ identity: TimelineIdentity) {
        append(identity.family)
        append(identity.configuration.canonical)
        append(identity.locale)
        append(identity.timeZone)
        append(identity.user)
    }

    /// Eight columns: where a widget is. `app_id`, `id`, `kind_id`, `family`, `user_id`, `device_id`, `locale`, `time_zone`.
    mutating func append(_ placement: WidgetPlacement, of kind: RegisteredKind) {
        append(kind.appID)
        append(placement.widget)
        append(kind.id)
        append(placement.family)
        append(placement.user)
        append(placement.device)
        append(placement.environment.locale)
        append(placement.environment.timeZone)
    }
}
