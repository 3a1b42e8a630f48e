//! How the registry's types are stored in columns.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use crate::model::{DefinitionHash, Timestamp};
use crate::registry::{DecidedBy, Owner, StorageError};

impl From<rusqlite::Error> for StorageError {
    fn from(error: rusqlite::Error) -> Self {
        Self(error.to_string())
    }
}

impl ToSql for DefinitionHash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(&self.0)))
    }
}

impl FromSql for DefinitionHash {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes = value.as_blob()?;
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| FromSqlError::InvalidBlobSize {
                expected_size: 32,
                blob_size: bytes.len(),
            })
    }
}

/// Stand in for a user id in decisions of a policy, and of a list.
const POLICY: i64 = -1;
const LIST: i64 = -2;

impl ToSql for DecidedBy {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Person(uid) => i64::from(*uid),
            Self::Policy => POLICY,
            Self::List => LIST,
        }
        .into())
    }
}

impl FromSql for DecidedBy {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            POLICY => Ok(Self::Policy),
            LIST => Ok(Self::List),
            uid => u32::try_from(uid)
                .map(Self::Person)
                .map_err(|_| FromSqlError::OutOfRange(uid)),
        }
    }
}

/// Stand in for a user id for owners who are not users.
const SHARED: i64 = -1;
const UNKNOWN: i64 = -2;
const EARLIER: i64 = -3;

impl ToSql for Owner {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::User(uid) => i64::from(*uid),
            Self::Shared => SHARED,
            Self::Unknown => UNKNOWN,
            Self::Earlier => EARLIER,
        }
        .into())
    }
}

impl FromSql for Owner {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            SHARED => Ok(Self::Shared),
            UNKNOWN => Ok(Self::Unknown),
            EARLIER => Ok(Self::Earlier),
            uid => u32::try_from(uid)
                .map(Self::User)
                .map_err(|_| FromSqlError::OutOfRange(uid)),
        }
    }
}

impl ToSql for Timestamp {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        // Sufficient until the year 2262.
        Ok(i64::try_from(self.0).unwrap_or(i64::MAX).into())
    }
}

impl FromSql for Timestamp {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value
            .as_i64()
            .map(|nanoseconds| Self(u64::try_from(nanoseconds).unwrap_or(0)))
    }
}
