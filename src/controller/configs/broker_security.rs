//! Broker keys about TLS, SASL, tokens and access.

use super::key::Allowed::{Any, AtLeast, Between, OneOf, OneOfIgnoringCase};
use super::tables::keys;

keys! { SECURITY_KEYS;
    "authorizer.class.name": String = Some(""), Any, Low, ReadOnly, Stored =>
        "What decides on access.";
    "delegation.token.expiry.check.interval.ms": Long = Some("3600000"), AtLeast(1), Low, ReadOnly, Stored =>
        "How often delegation tokens are checked for expiry.";
    "delegation.token.expiry.time.ms": Long = Some("86400000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How long a delegation token lasts without renewal.";
    "delegation.token.max.lifetime.ms": Long = Some("604800000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How long a delegation token lasts at most.";
    "delegation.token.secret.key": Password = None, Any, Medium, ReadOnly, Stored =>
        "The key that signs delegation tokens.";
    "principal.builder.class": Class = Some("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
        Any, Medium, PerBroker, Stored =>
        "What makes a principal of a connection.";
    "sasl.client.callback.handler.class": Class = None, Any, Medium, ReadOnly, Stored =>
        "The callbacks of SASL clients.";
    "sasl.enabled.mechanisms": List = Some("GSSAPI"), Any, Medium, PerBroker, Stored =>
        "The SASL mechanisms that clients may use.";
    "sasl.jaas.config": Password = None, Any, Medium, PerBroker, Stored =>
        "The login contexts for SASL, in JAAS form.";
    "sasl.kerberos.kinit.cmd": String = Some("/usr/bin/kinit"), Any, Medium, PerBroker, Stored =>
        "Kerberos: where kinit is.";
    "sasl.kerberos.min.time.before.relogin": Long = Some("60000"), Any, Medium, PerBroker, Stored =>
        "Kerberos: the shortest time between two logins.";
    "sasl.kerberos.principal.to.local.rules": List = Some("DEFAULT"), Any, Medium, PerBroker, Stored =>
        "Kerberos: how principals become short names.";
    "sasl.kerberos.service.name": String = None, Any, Medium, PerBroker, Stored =>
        "Kerberos: the principal name the broker runs under.";
    "sasl.kerberos.ticket.renew.jitter": Double = Some("0.05"), Any, Medium, PerBroker, Stored =>
        "Kerberos: the random share of the renewal time.";
    "sasl.kerberos.ticket.renew.window.factor": Double = Some("0.8"), Any, Medium, PerBroker, Stored =>
        "Kerberos: when in a ticket's life it is renewed.";
    "sasl.login.callback.handler.class": Class = None, Any, Medium, ReadOnly, Stored =>
        "The callbacks of SASL logins.";
    "sasl.login.class": Class = None, Any, Medium, ReadOnly, Stored =>
        "What does SASL logins.";
    "sasl.login.connect.timeout.ms": Int = None, Any, Low, ReadOnly, Stored =>
        "OAuth: how long a connection to the provider may take.";
    "sasl.login.read.timeout.ms": Int = None, Any, Low, ReadOnly, Stored =>
        "OAuth: how long an answer of the provider may take.";
    "sasl.login.refresh.buffer.seconds": Short = Some("300"), Any, Medium, PerBroker, Stored =>
        "How long before its end a credential is renewed at the latest.";
    "sasl.login.refresh.min.period.seconds": Short = Some("60"), Any, Medium, PerBroker, Stored =>
        "The shortest time between two renewals of a credential.";
    "sasl.login.refresh.window.factor": Double = Some("0.8"), Any, Medium, PerBroker, Stored =>
        "When in a credential's life it is renewed.";
    "sasl.login.refresh.window.jitter": Double = Some("0.05"), Any, Medium, PerBroker, Stored =>
        "The random share of that time.";
    "sasl.login.retry.backoff.max.ms": Long = Some("10000"), Any, Low, ReadOnly, Stored =>
        "OAuth: the longest pause between two tries to log in.";
    "sasl.login.retry.backoff.ms": Long = Some("100"), Any, Low, ReadOnly, Stored =>
        "OAuth: the first pause between two tries to log in.";
    "sasl.mechanism.controller.protocol": String = Some("GSSAPI"), Any, High, ReadOnly, Stored =>
        "The SASL mechanism towards controllers.";
    "sasl.mechanism.inter.broker.protocol": String = Some("GSSAPI"), Any, Medium, PerBroker, Stored =>
        "The SASL mechanism among brokers.";
    "sasl.oauthbearer.assertion.algorithm": String = Some("RS256"),
        OneOfIgnoringCase(&["ES256", "RS256"]), Medium, ReadOnly, Stored =>
        "OAuth: the algorithm that signs assertions.";
    "sasl.oauthbearer.assertion.claim.aud": String = None, Any, Medium, ReadOnly, Stored =>
        "OAuth: the audience claim of assertions.";
    "sasl.oauthbearer.assertion.claim.exp.seconds": Int = Some("300"),
        Between(0, 86400), Low, ReadOnly, Stored =>
        "OAuth: how long assertions are good.";
    "sasl.oauthbearer.assertion.claim.iss": String = None, Any, Medium, ReadOnly, Stored =>
        "OAuth: the issuer claim of assertions.";
    "sasl.oauthbearer.assertion.claim.jti.include": Boolean = Some("false"), Any, Medium, ReadOnly, Stored =>
        "OAuth: whether assertions carry an id of their own.";
    "sasl.oauthbearer.assertion.claim.nbf.seconds": Int = Some("60"),
        Between(0, 3600), Low, ReadOnly, Stored =>
        "OAuth: how far back assertions begin to be good.";
    "sasl.oauthbearer.assertion.claim.sub": String = None, Any, Medium, ReadOnly, Stored =>
        "OAuth: the subject claim of assertions.";
    "sasl.oauthbearer.assertion.file": String = None, Any, Medium, ReadOnly, Stored =>
        "OAuth: a file with a ready assertion.";
    "sasl.oauthbearer.assertion.private.key.file": String = None, Any, Medium, ReadOnly, Stored =>
        "OAuth: the key that signs assertions.";
    "sasl.oauthbearer.assertion.private.key.passphrase": Password = None, Any, Medium, ReadOnly, Stored =>
        "OAuth: the passphrase of that key.";
    "sasl.oauthbearer.assertion.template.file": String = None, Any, Medium, ReadOnly, Stored =>
        "OAuth: a file with more claims of assertions.";
    "sasl.oauthbearer.client.credentials.client.id": String = None, Any, Medium, ReadOnly, Stored =>
        "OAuth: the client's id.";
    "sasl.oauthbearer.client.credentials.client.secret": Password = None, Any, Medium, ReadOnly, Stored =>
        "OAuth: the client's secret.";
    "sasl.oauthbearer.clock.skew.seconds": Int = Some("30"), Any, Low, ReadOnly, Stored =>
        "OAuth: how far clocks may differ.";
    "sasl.oauthbearer.expected.audience": List = None, Any, Low, ReadOnly, Stored =>
        "OAuth: the audiences that tokens may be for.";
    "sasl.oauthbearer.expected.issuer": String = None, Any, Low, ReadOnly, Stored =>
        "OAuth: who must have issued a token.";
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": Long = Some("3600000"), Any, Low, ReadOnly, Stored =>
        "OAuth: how often the provider's keys are read again.";
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": Long = Some("10000"), Any, Low, ReadOnly, Stored =>
        "OAuth: the longest pause between tries to read them.";
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": Long = Some("100"), Any, Low, ReadOnly, Stored =>
        "OAuth: the first pause between tries to read them.";
    "sasl.oauthbearer.jwks.endpoint.url": String = None, Any, Medium, ReadOnly, Stored =>
        "OAuth: where the provider's keys are.";
    "sasl.oauthbearer.jwt.retriever.class": Class = Some("org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"),
        Any, Medium, ReadOnly, Stored =>
        "OAuth: what gets tokens.";
    "sasl.oauthbearer.jwt.validator.class": Class = Some("org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"),
        Any, Medium, ReadOnly, Stored =>
        "OAuth: what checks tokens.";
    "sasl.oauthbearer.scope": String = None, Any, Medium, ReadOnly, Stored =>
        "OAuth: the scope that a token is asked for.";
    "sasl.oauthbearer.scope.claim.name": String = Some("scope"), Any, Low, ReadOnly, Stored =>
        "OAuth: the claim with the scope.";
    "sasl.oauthbearer.sub.claim.name": String = Some("sub"), Any, Low, ReadOnly, Stored =>
        "OAuth: the claim with the subject.";
    "sasl.oauthbearer.token.endpoint.url": String = None, Any, Medium, ReadOnly, Stored =>
        "OAuth: where tokens are got.";
    "sasl.server.callback.handler.class": Class = None, Any, Medium, ReadOnly, Stored =>
        "The callbacks of the SASL server.";
    "sasl.server.max.receive.size": Int = Some("524288"), Any, Medium, ReadOnly, Stored =>
        "The largest request before a client has logged in.";
    "security.providers": String = None, Any, Low, ReadOnly, Stored =>
        "More Java security providers.";
    "ssl.allow.dn.changes": Boolean = Some("false"), Any, Low, ReadOnly, Stored =>
        "TLS: whether a new certificate may have another subject.";
    "ssl.allow.san.changes": Boolean = Some("false"), Any, Low, ReadOnly, Stored =>
        "TLS: whether a new certificate may have other alternative names.";
    "ssl.cipher.suites": List = Some(""), Any, Medium, PerBroker, Stored =>
        "TLS: the cipher suites.";
    "ssl.client.auth": String = Some("none"),
        OneOf(&["required", "requested", "none"]), Medium, PerBroker, Stored =>
        "TLS: whether clients must, may or need not show a certificate.";
    "ssl.enabled.protocols": List = Some("TLSv1.2,TLSv1.3"), Any, Medium, PerBroker, Stored =>
        "TLS: the protocol versions that are accepted.";
    "ssl.endpoint.identification.algorithm": String = Some("https"), Any, Low, PerBroker, Stored =>
        "TLS: how a server's name is checked; empty means not.";
    "ssl.engine.factory.class": Class = None, Any, Low, PerBroker, Stored =>
        "TLS: what makes TLS engines.";
    "ssl.key.password": Password = None, Any, Medium, PerBroker, Stored =>
        "TLS: the password of the private key.";
    "ssl.keymanager.algorithm": String = Some("SunX509"), Any, Medium, PerBroker, Stored =>
        "TLS: the key manager's algorithm.";
    "ssl.keystore.certificate.chain": Password = None, Any, Medium, PerBroker, Stored =>
        "TLS: the certificate chain, as PEM text.";
    "ssl.keystore.key": Password = None, Any, Medium, PerBroker, Stored =>
        "TLS: the private key, as PEM text.";
    "ssl.keystore.location": String = None, Any, Medium, PerBroker, Stored =>
        "TLS: the key store's file.";
    "ssl.keystore.password": Password = None, Any, Medium, PerBroker, Stored =>
        "TLS: the key store's password.";
    "ssl.keystore.type": String = Some("JKS"), Any, Medium, PerBroker, Stored =>
        "TLS: the key store's format.";
    "ssl.principal.mapping.rules": String = Some("DEFAULT"), Any, Low, ReadOnly, Stored =>
        "TLS: how a certificate's subject becomes a short name.";
    "ssl.protocol": String = Some("TLSv1.3"), Any, Medium, PerBroker, Stored =>
        "TLS: the preferred protocol version.";
    "ssl.provider": String = None, Any, Medium, PerBroker, Stored =>
        "TLS: the Java provider.";
    "ssl.secure.random.implementation": String = None, Any, Low, PerBroker, Stored =>
        "TLS: the source of randomness.";
    "ssl.trustmanager.algorithm": String = Some("PKIX"), Any, Medium, PerBroker, Stored =>
        "TLS: the trust manager's algorithm.";
    "ssl.truststore.certificates": Password = None, Any, Medium, PerBroker, Stored =>
        "TLS: the trusted certificates, as PEM text.";
    "ssl.truststore.location": String = None, Any, Medium, PerBroker, Stored =>
        "TLS: the trust store's file.";
    "ssl.truststore.password": Password = None, Any, Medium, PerBroker, Stored =>
        "TLS: the trust store's password.";
    "ssl.truststore.type": String = Some("JKS"), Any, Medium, PerBroker, Stored =>
        "TLS: the trust store's format.";
}
